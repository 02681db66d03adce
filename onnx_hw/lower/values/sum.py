"""Sum or difference of two tensors, each with a scale of its own: a weighted sum of their integers, and thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from onnx_hw.exact.choose_sum import choose_weighted_sum
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.wide_quantized_add import MAX_WIDE_OPERAND_VALUES
from onnx_hw.lower.network_builder import IntegerStream, LoweredValue, NetworkBuilder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.values.loadable_sum import sum_of_tables
from onnx_hw.lower.values.pending_pair import PendingPair
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.add import Add
from onnx_hw.ops.requantize import Staircase

MAX_FACTOR = 1 << 8
"""Greatest factor of an operand's integers in a sum that stays on a stream as a weighted sum of integers."""


@dataclass(frozen=True)
class PendingSum(PendingPair):
    """Real numbers ``clip(a ± b, low, high)`` of two tensors.

    Attributes:
        sign: sign of ``b``: 1 or −1.
    """

    sign: int = 1

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        a, b = (builder.tensors[real.tensor] for real in (self.a, self.b))
        (p,), (q,) = self.a.slope, self.b.slope
        (c,), (d,) = self.a.offset, self.b.offset
        too_long = any(last - first >= MAX_WIDE_OPERAND_VALUES for first, last in (a.range, b.range))
        if too_long and (stream := self.on_stream(builder, node)) is not None:  # of exact products
            return stream.quantized_within(builder, node, grid)
        line = (p, self.sign * q), c + self.sign * d
        if builder.loadable:
            loadable = sum_of_tables(builder, node, (self.a, self.b), self.sign, grid)
            if loadable is not None:
                return loadable
        try:
            steps = choose_weighted_sum(*line, (a.range, b.range), grid)
        except ValueError as error:
            raise Obstacle(
                "sum-too-wide",
                f"the sum must be exact in 61 bits; that of operands of {a.dtype.bits} and {b.dtype.bits} bits in "
                f"{grid.dtype.bits} bits is not: {error}",
                "quantize one of them to fewer bits: with at most 13 bits, there is always an exact sum",
            ) from None
        operands = [self.a.tensor, self.b.tensor]
        total = builder.add(f"{node.label}/sum", Add(a, b, steps.factors), operands, node)
        staircase = Staircase(builder.tensors[total], steps.exact, grid.dtype)
        tensor = builder.add(node.label, staircase, [total], node, output=node.outputs[0])
        return IntegerStream(tensor, self.a.shape, builder.positions(self.a))

    def for_channel_grids(self, builder: NetworkBuilder, node: Node) -> LoweredValue:
        return self.on_stream(builder, node) or self

    def on_stream(self, builder: NetworkBuilder, node: Node) -> Real | None:
        """Build the sum; None where the ratio of the operands' steps needs a factor above ``MAX_FACTOR``."""
        factors = self._factors()
        if factors is None:
            return None
        a, b = (builder.tensors[real.tensor] for real in (self.a, self.b))
        (p,), (c,), (d,) = self.a.slope, self.a.offset, self.b.offset
        add = Add(a, b, (factors[0], self.sign * factors[1]))
        total = builder.add(f"{node.label}/sum", add, [self.a.tensor, self.b.tensor], node)
        line = (p / factors[0],), (c + self.sign * d,)
        return Real(total, self.shape, builder.positions(self.a), *line, low=self.low, high=self.high)

    def of_both_operands(self, function: Callable[[Real, str], Real]) -> LoweredValue | None:
        """Return the sum of a linear function of both operands; None for bounds, or if a stream carries the sum."""
        if self.is_clipped or self._factors() is not None:
            return None
        return replace(self, a=function(self.a, "first"), b=function(self.b, "second"))

    def _factors(self) -> tuple[int, int] | None:
        """Return positive factors of the operands' integers in their sum; None where one is above ``MAX_FACTOR``."""
        (p,), (q,) = self.a.slope, self.b.slope
        factors = (p / q).as_integer_ratio()
        return None if max(factors) > MAX_FACTOR else factors
