"""Bounds of real numbers, which become bounds of the quantizer that follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import Self

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.lower.network_builder import Bound, IntegerStream, LoweredValue, NetworkBuilder
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of


@dataclass(frozen=True, kw_only=True)
class Clipped(LoweredValue):
    """Real numbers with bounds, a least and a greatest number; None for no bound."""

    low: Bound = None
    high: Bound = None

    @property
    def is_clipped(self) -> bool:
        """Whether the numbers have bounds."""
        return self.low is not None or self.high is not None

    def clip(self, low: Bound, high: Bound) -> Self:
        """Return ``min(max(value, low), high)``: it applies to the present bounds like to every number."""

        def bounded(value: Fraction) -> Fraction:
            value = value if low is None else max(value, low)
            return value if high is None else min(value, high)

        bounds = (low if self.low is None else self.low, high if self.high is None else self.high)
        new_low, new_high = (None if bound is None else bounded(bound) for bound in bounds)
        return replace(self, low=new_low, high=new_high)

    def least(self, builder: NetworkBuilder) -> Fraction | float:
        return -inf if self.low is None else self.low

    def within_bounds(self, grid: Grid) -> Grid:
        """Return a grid with the bounds of these numbers."""
        return grid.clipped(-inf if self.low is None else self.low, inf if self.high is None else self.high)

    def quantized(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        return self.quantized_within(builder, node, narrowed(builder, node, self.within_bounds(grid)))

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        """Build the integers that stand for this value on a grid that has the bounds already."""
        raise NotImplementedError


def narrowed(builder: NetworkBuilder, node: Node, grid: Grid) -> Grid:
    """Return a grid with a narrower type if it uses all integers of that type: clipping to 6 bits has no ONNX type.

    A node that reads the integers of a QuantizeLinear directly, such as a Pad, may need other integers of the model's
    type. The grid does not change for such a reader.

    Args:
        node: the quantizer with that grid.
    """
    used = Int.holding(grid.low, grid.high)
    if (used.signed, used.min, used.max) != (grid.dtype.signed, grid.low, grid.high) or used == grid.dtype:
        return grid
    if facts_of(node).effect is Effect.SNAPS:
        return replace(grid, dtype=used)
    readers = [reader for reader in builder.graph.nodes if node.outputs[0] in reader.inputs]
    plain = all(facts_of(reader).effect is Effect.DEQUANTIZES for reader in readers)
    return replace(grid, dtype=used) if plain and used.min <= grid.zeros[0] <= used.max else grid
