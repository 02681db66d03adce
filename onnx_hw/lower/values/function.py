"""Real numbers that are any function of the integers on a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import ClassVar, Self

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.network_builder import Bound, IntegerStream, NetworkBuilder
from onnx_hw.lower.values.channel_steps import ChannelSteps
from onnx_hw.lower.values.extrema import extrema_of
from onnx_hw.lower.values.function_table import integers_of_function, too_many_arguments
from onnx_hw.lower.values.real import Real, tabled
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.graph.model import Node

MAX_ORDER_ARGUMENTS = 1 << 20
"""Greatest number of arguments of a function that is checked for being monotone."""

MAX_STEP_BITS = 12
"""Greatest width, in bits, of the integers of a function with a step for each.

For wider integers the two lines of a LeakyRelu cost less.
"""

Pieces = tuple[tuple[tuple[Fraction, ...], tuple[Fraction, ...]], ...]
"""Slopes and offsets of several lines, as in ``Real``."""


@dataclass(frozen=True)
class FunctionValue(StreamNumbers):
    """Real numbers that are any function of the integers on a stream, element by element.

    Attributes:
        function: integers (1 or channels, n) to float64 (1 or channels, n), with the bounds of the value.
        pieces: lines whose maximum is the function, apart from bounds; or empty.
    """

    function: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    pieces: Pieces = ()

    is_linear: ClassVar[bool] = False

    @property
    def has_one_scale(self) -> bool:
        return False

    def numbers(self, integers: np.ndarray) -> np.ndarray:
        return self.function(integers)

    def clip(self, low: Bound, high: Bound) -> Self:
        before = self.function
        bounds = -np.inf if low is None else float(low), np.inf if high is None else float(high)
        return replace(super().clip(low, high), function=lambda integers: np.clip(before(integers), *bounds))

    def keeps_order(self, builder: NetworkBuilder) -> bool:
        if self.partial:
            return False
        first, last = builder.materialize(self).range
        if last - first >= MAX_ORDER_ARGUMENTS:
            return False
        return not (np.diff(self.numbers(np.arange(first, last + 1)[None, :])) < 0).any()

    def least(self, builder: NetworkBuilder) -> Fraction | float:
        first, last = builder.materialize(self).range
        if last - first >= MAX_ORDER_ARGUMENTS:
            return -inf
        return float(self.numbers(np.arange(first, last + 1)[None, :]).min())

    def differs_by_channel(self, builder: NetworkBuilder) -> bool:
        first, _ = builder.materialize(self).range
        return len(self.numbers(np.array([[first]]))) > 1

    def moved_by(
        self, builder: NetworkBuilder, node: Node, shape: tuple[int, ...], layout: Layout, source: np.ndarray
    ) -> Self:
        if self.differs_by_channel(builder):
            raise builder.obstacle(node)  # the functions differ by channel, and cannot move with the elements
        return super().moved_by(builder, node, shape, layout, source)

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        if self.pieces and not self.partial and grid.dtype.bits > MAX_STEP_BITS:
            lines = tuple(Real(self.tensor, self.shape, self.where, slope, offset) for slope, offset in self.pieces)
            greatest = extrema_of(builder, node, "max", lines, self.shape, f"{node.label}/greatest")
            return greatest.quantized(builder, node, grid)
        return super().quantized_within(builder, node, grid)

    def requantized_whole(
        self, builder: NetworkBuilder, node: Node, grid: Grid, *, name: str, output: str
    ) -> IntegerStream:
        def onto(values: np.ndarray) -> np.ndarray:
            return grid.integers(np.broadcast_to(values, (max(len(values), grid.channels), values.shape[1])))

        return integers_of_function(builder, node, self, onto, grid.dtype, rises=self.rises, name=name, output=output)

    def stepped(self, builder: NetworkBuilder, node: Node, steps: ChannelSteps) -> IntegerStream:
        dtype, names = steps.quantizer.dtype, {"name": node.label, "output": node.outputs[0]}
        return integers_of_function(builder, node, self, steps.integers, dtype, rises=self.rises, **names)

    def as_summands(self, builder: NetworkBuilder, node: Node, *, zeros: bool) -> Real:
        if self.partial:
            raise builder.obstacle(node)
        real = tabled(builder, node, self)
        if real is None:
            first, last = builder.materialize(self).range
            raise too_many_arguments(builder, node, self, last - first + 1)
        return real
