"""Product of two tensors, each with a scale of its own: ``s_a s_b (a − z_a)(b − z_b)``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.network_builder import IntegerStream, LoweredValue, NetworkBuilder, StreamValue
from onnx_hw.lower.values.clipped import Clipped
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.requantize import Requantize


@dataclass(frozen=True)
class PendingProduct(Clipped):
    """Real numbers ``clip(a · b, low, high)`` of two tensors: integers with a scale and a zero point each.

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
        total, scale = self._multiplied(builder, node)
        requantize = Requantize(builder.tensors[total], (scale,), (Fraction(0),), grid)
        tensor = builder.add(node.label, requantize, [total], node, output=node.outputs[0])
        return IntegerStream(tensor, self.a.shape, builder.positions(self.a))

    def for_channel_grids(self, builder: NetworkBuilder, node: Node) -> LoweredValue:
        return self.on_stream(builder, node)

    def on_stream(self, builder: NetworkBuilder, node: Node) -> Real:
        total, slope = self._multiplied(builder, node)
        return Real(total, self.shape, builder.positions(self.a), (slope,), low=self.low, high=self.high)

    def _multiplied(self, builder: NetworkBuilder, node: Node) -> tuple[str, Fraction]:
        """Build (a − z_a)(b − z_b); return the name of its tensor, and the number for which the integer 1 stands."""
        a, b = (builder.tensors[real.tensor] for real in (self.a, self.b))
        offsets = [-real.zero_point for real in (self.a, self.b) if real.zero_point is not None]
        product = Multiply(a, b, (offsets[0], offsets[1]))
        total = builder.add(f"{node.label}/product", product, [self.a.tensor, self.b.tensor], node)
        return total, self.a.slope[0] * self.b.slope[0]
