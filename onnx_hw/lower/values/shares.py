"""Shares of a whole, a Softmax: exponentials of real numbers, each divided by the sum of its pixel."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from onnx_hw.exact.division import exponentials
from onnx_hw.exact.grid import Grid
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder, StreamValue
from onnx_hw.lower.values.clipped import Clipped
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.softmax import Softmax

FRACTION_BITS = 20
"""Bits behind the point of an exponential."""


@dataclass(frozen=True)
class PendingShares(Clipped):
    """Real numbers ``exp(a) / Σ exp(a)``, the sum over the channels of a pixel.

    Attributes:
        a: numbers with one scale and without bounds.
        reach: greatest distance from the greatest integer of a pixel at which there is a share other than 0; None for
            any.
        rounded: upper bound of the difference between a number and the exact one of the model.
    """

    a: Real
    reach: int | None = None
    rounded: Fraction = Fraction(0)

    is_pending: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.a.shape

    def streams(self) -> list[StreamValue]:
        return [self.a]

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        operand = builder.tensors[self.a.tensor]
        first, last = operand.range
        table = exponentials(self.a.slope[0], last - first + 1, FRACTION_BITS)
        if self.reach is not None:
            table[self.reach + 1 :] = 0
        tensor = builder.add(node.label, Softmax(operand, table, grid), [self.a.tensor], node, output=node.outputs[0])
        growth = min(2 * self.rounded, Fraction(1))  # a share grows by a factor of e^growth at most
        error = (Fraction(operand.channels + 1, 2 << FRACTION_BITS) + growth + growth**2) / grid.step[0]
        builder.approximate[node.outputs[0]] = float(error)
        return IntegerStream(tensor, self.shape, builder.positions(self.a))
