"""Product of two tensors, each with a scale of its own: ``s_a s_b (a − z_a)(b − z_b)``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.network_builder import IntegerStream, LoweredValue, NetworkBuilder
from onnx_hw.lower.values.pending_pair import PendingPair
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.requantize import Requantize


@dataclass(frozen=True)
class PendingProduct(PendingPair):
    """Real numbers ``clip(a · b, low, high)`` of two tensors; their integers have a zero point each."""

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
        product = Multiply(a, b, self.offsets)
        total = builder.add(f"{node.label}/product", product, [self.a.tensor, self.b.tensor], node)
        return total, self.a.slope[0] * self.b.slope[0]
