"""Steps of a quantizer for every channel of a stream: grids or thresholds that differ between channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, inf
from typing import Protocol

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.step_function import Steps, steps
from onnx_hw.lower.network_builder import Bound, NetworkBuilder, StreamValue
from onnx_hw.lower.quantizers import Edge, Quantizer
from onnx_hw.lower.values.per_channel import per_channel
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.requantize import Requantize, Staircase
from onnx_hw.ops.tensor import Tensor


class LinearNumbers(Protocol):
    """Numbers ``clip(slope[c] · x + offset[c], low, high)`` of integers x in channel c."""

    @property
    def slope(self) -> tuple[Fraction, ...]: ...
    @property
    def offset(self) -> tuple[Fraction, ...]: ...
    @property
    def low(self) -> Bound: ...
    @property
    def high(self) -> Bound: ...
    def lines(self) -> list[tuple[Fraction, Fraction]]: ...


@dataclass(frozen=True)
class ChannelSteps:
    """Steps of a quantizer on a stream.

    Attributes:
        quantizer: the quantizer, whose least and greatest integer are known.
        grid: its grids, with a step and a zero point per channel; None for thresholds.
        edges: edges at which the levels above the least begin: one row, or one row per channel of the stream.
    """

    quantizer: Quantizer
    grid: Grid | None
    edges: Sequence[Sequence[Edge]] = ()

    @staticmethod
    def of(builder: NetworkBuilder, value: StreamValue, quantizer: Quantizer) -> ChannelSteps:
        """Return the steps for the channels of a value's stream."""
        rows = quantizer.edges()
        if rows is None:
            step, zero = (per_channel(builder, value, array) for array in (quantizer.step, quantizer.zero_point))
            return ChannelSteps(quantizer, quantizer.grid(step, zero))
        if len(rows) > 1:
            along = [1] * len(value.shape)
            along[quantizer.axis] = -1
            row_of_channel = per_channel(builder, value, np.arange(len(rows)).astype(object).reshape(along))
            rows = [rows[int(row)] for row in row_of_channel]
        return ChannelSteps(quantizer, None, rows)

    def integers(self, numbers: np.ndarray) -> np.ndarray:
        """Return the integers of numbers: (1 or channels, n) float64 to int64, by channel where those differ."""
        if self.grid is not None:
            channels = max(len(numbers), self.grid.channels)
            return self.grid.integers(np.broadcast_to(numbers, (channels, numbers.shape[1])))
        counts = np.zeros((max(len(numbers), len(self.edges)), numbers.shape[1]), dtype=np.int64)
        for k, count in enumerate(counts):
            for number, included in self.edges[k % len(self.edges)]:
                row = numbers[k % len(numbers)]
                count += row >= float(number) if included else row > float(number)
        assert self.quantizer.low is not None  # ``bounded`` has set it
        return self.quantizer.low + counts

    def operator(self, operand: Tensor, numbers: LinearNumbers) -> Operator:
        """Return the operator that makes the integers of linear numbers."""
        if self.grid is not None:
            return requantize_per_channel(operand, numbers, self.grid)
        assert self.quantizer.low is not None
        return _staircase(operand, numbers, self.edges, self.quantizer.low, self.quantizer)


def requantize_per_channel(operand: Tensor, numbers: LinearNumbers, grid: Grid) -> Operator:
    """Return the operator for grids; bounds of the numbers become bounds of the integers, per channel if necessary."""
    low = -inf if numbers.low is None else numbers.low
    high = inf if numbers.high is None else numbers.high
    bounds = [(grid.integer(low, k), grid.integer(high, k)) for k in range(grid.channels)]
    if len(set(bounds)) == 1:
        return Requantize(operand, numbers.slope, numbers.offset, grid.within(*bounds[0]))
    exact = steps(numbers.slope, numbers.offset, grid, *operand.range)
    levels, thresholds = np.arange(grid.low + 1, grid.high + 1), exact.thresholds.copy()
    for row, (least, greatest) in zip(thresholds, bounds, strict=True):
        row[levels <= least] = exact.first
        row[levels > greatest] = exact.last + 1
    return Staircase(operand, Steps(exact.first, exact.last, grid.low, grid.high, thresholds), grid.dtype)


def _staircase(
    operand: Tensor, numbers: LinearNumbers, rows: Sequence[Sequence[Edge]], low: int, quantizer: Quantizer
) -> Staircase:
    """Return the operator whose thresholds are the integers at which the edges are reached.

    Args:
        rows: edges in ascending order: one row, or one row per channel.
        low: least integer of the result.
    """
    first, last = operand.range
    lines = numbers.lines()
    count = max(len(lines), len(rows))
    thresholds = np.array(
        [
            [_first_beyond(edge, *lines[k % len(lines)], numbers, first, last) for edge in rows[k % len(rows)]]
            for k in range(count)
        ],
        dtype=np.int64,
    )
    return Staircase(operand, Steps(first, last, low, low + thresholds.shape[1], thresholds), quantizer.dtype)


def _first_beyond(edge: Edge, slope: Fraction, offset: Fraction, numbers: LinearNumbers, first: int, last: int) -> int:
    """Return the least x of ``first..last + 1`` with ``clip(slope·x + offset, low, high)`` beyond an edge."""
    low, high = numbers.low, numbers.high
    if (low is not None and _is_beyond(low, edge)) or (slope == 0 and _is_beyond(offset, edge)):
        return first
    if (high is not None and not _is_beyond(high, edge)) or slope == 0:
        return last + 1
    number, included = edge
    crossing = (number - offset) / slope
    return min(max(ceil(crossing) if included else floor(crossing) + 1, first), last + 1)


def _is_beyond(number: Fraction, edge: Edge) -> bool:
    return number > edge[0] or (number == edge[0] and edge[1])
