"""Quotient of two tensors, each with a scale of its own: ``s_a (a − z_a) / (s_b (b − z_b))``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder, StreamValue
from onnx_hw.lower.values.clipped import Clipped
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.divide import Divide


@dataclass(frozen=True)
class PendingQuotient(Clipped):
    """Real numbers ``clip(a / b, low, high)`` of two tensors: integers with a scale and a zero point each.

    The operands have one shape and one order, and no bounds.
    """

    a: Real
    b: Real

    is_pending: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.a.shape

    def streams(self) -> list[StreamValue]:
        return [self.a, self.b]

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        a, b = (builder.tensors[real.tensor] for real in (self.a, self.b))
        offsets = [-real.zero_point for real in (self.a, self.b) if real.zero_point is not None]
        factor = self.a.slope[0] / (self.b.slope[0] * grid.step[0])
        operator = Divide(a, b, (offsets[0], offsets[1]), factor, grid)
        operands = [self.a.tensor, self.b.tensor]
        tensor = builder.add(node.label, operator, operands, node, output=node.outputs[0])
        return IntegerStream(tensor, self.a.shape, builder.positions(self.a))
