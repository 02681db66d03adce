"""Quotient of two tensors, each with a scale of its own: ``s_a (a − z_a) / (s_b (b − z_b))``."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder
from onnx_hw.lower.values.pending_pair import PendingPair
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.divide import Divide


@dataclass(frozen=True)
class PendingQuotient(PendingPair):
    """Real numbers ``clip(a / b, low, high)`` of two tensors; their integers have a zero point each."""

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        a, b = (builder.tensors[real.tensor] for real in (self.a, self.b))
        factor = self.a.slope[0] / (self.b.slope[0] * grid.step[0])
        operator = Divide(a, b, self.offsets, factor, grid)
        operands = [self.a.tensor, self.b.tensor]
        tensor = builder.add(node.label, operator, operands, node, output=node.outputs[0])
        return IntegerStream(tensor, self.a.shape, builder.positions(self.a))
