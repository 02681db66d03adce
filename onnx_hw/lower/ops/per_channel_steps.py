"""Functions of the real numbers on a stream that have a grid per channel, or thresholds: as staircases."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.step_function import Steps, steps
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.ops.constants import per_channel
from onnx_hw.lower.ops.lookup import integers_of_function
from onnx_hw.lower.quantizers import Counted, Quantizer, Rounded, Truncated
from onnx_hw.lower.values import FunctionValue, IntegerStream, Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.requantize import Requantize, Staircase
from onnx_hw.ops.tensor import Tensor

Edge = tuple[Fraction, bool]
"""A number, and whether it belongs to what is beyond it."""


def of_tensor(builder: Builder, node: Node, value: Real | FunctionValue, snapping: Quantizer) -> IntegerStream:
    """The integers that stand for real numbers."""
    rows = snapping if isinstance(snapping, Rounded) else _edges(builder, value, snapping)
    grid = _grid(builder, value, rows) if isinstance(rows, Rounded) else None
    whole = value.whole(builder.tensors[value.tensor].size) if value.partial else value
    assert snapping.low is not None  # known since the data is
    if isinstance(whole, FunctionValue):
        low = snapping.low

        def onto(numbers: np.ndarray) -> np.ndarray:
            if isinstance(rows, Rounded):
                assert grid is not None
                return grid.integers(np.broadcast_to(numbers, (max(len(numbers), grid.channels), numbers.shape[1])))
            return low + _counted(numbers, rows)

        integers = integers_of_function(
            builder, node, whole, onto, snapping.dtype, name=node.label, output=node.outputs[0]
        )
    else:
        operand = builder.settled(whole)
        operator: Operator
        if grid is not None:
            operator = _on_grids(operand, whole, grid)
        else:
            assert not isinstance(rows, Rounded)
            operator = _staircase(operand, whole, rows, snapping.low, snapping)
        tensor = builder.add(node.label, operator, [whole.tensor], node, output=node.outputs[0])
        integers = IntegerStream(tensor, whole.shape, builder.positions(whole))
    return builder.moved(integers, value.where, value.shape, node) if value.partial else integers


def fill_of(snapping: Quantizer, number: Fraction | float) -> int | None:
    """What stands for a number, which may be infinite; None where that depends on the channel."""
    assert snapping.low is not None and snapping.high is not None
    if isinstance(number, float):
        falls = isinstance(snapping, Counted) and snapping.falls
        return snapping.high if (number > 0) != falls else snapping.low
    match snapping:
        case Rounded():
            grids = np.broadcast(snapping.step, snapping.zero_point)
            found = {_of_one(snapping, step, zero).integer(number) for step, zero in grids}
        case Counted():
            found = {snapping.integer(row, number) for row in snapping.thresholds}
        case Truncated():
            found = {min(max(snapping.integer(number), snapping.low), snapping.high)}
    return found.pop() if len(found) == 1 else None


def _of_one(snapping: Rounded, *line: Fraction) -> Grid:
    step, zero = line
    assert snapping.low is not None and snapping.high is not None
    return Grid((step,), (zero,), snapping.low, snapping.high, snapping.dtype, snapping.rounding)


def _grid(builder: Builder, value: Real | FunctionValue, snapping: Rounded) -> Grid:
    """With a step and a zero point per channel of the stream."""
    step, zero = (per_channel(builder, value, array) for array in (snapping.step, snapping.zero_point))
    assert snapping.low is not None and snapping.high is not None
    return Grid(step, zero, snapping.low, snapping.high, snapping.dtype, snapping.rounding)


def _on_grids(operand: Tensor, real: Real, grid: Grid) -> Operator:
    """Bounds of the numbers become bounds of the integers, of each channel's own if need be."""
    low, high = -inf if real.low is None else real.low, inf if real.high is None else real.high
    bounds = [(grid.integer(low, k), grid.integer(high, k)) for k in range(grid.channels)]
    if len(set(bounds)) == 1:
        return Requantize(operand, real.slope, real.offset, grid.within(*bounds[0]))
    exact = steps(real.slope, real.offset, grid, *operand.range)
    levels, thresholds = np.arange(grid.low + 1, grid.high + 1), exact.thresholds.copy()
    for row, (least, greatest) in zip(thresholds, bounds, strict=True):
        row[levels <= least] = exact.first
        row[levels > greatest] = exact.last + 1
    return Staircase(operand, Steps(exact.first, exact.last, grid.low, grid.high, thresholds), grid.dtype)


def _edges(builder: Builder, value: Real | FunctionValue, snapping: Quantizer) -> Sequence[Sequence[Edge]]:
    """From which numbers on each level above the least is reached: one row, or one per channel of the stream."""
    assert snapping.low is not None and snapping.high is not None
    if isinstance(snapping, Truncated):
        return [[snapping.edge(k) for k in range(snapping.low + 1, snapping.high + 1)]]
    assert isinstance(snapping, Counted) and not snapping.falls
    along = [1] * len(value.shape)
    along[snapping.axis] = -1
    rows = per_channel(builder, value, np.arange(len(snapping.thresholds)).astype(object).reshape(along))
    return [[(Fraction(number), snapping.taken) for number in snapping.thresholds[int(row)]] for row in rows]


def _staircase(operand: Tensor, real: Real, rows: Sequence[Sequence[Edge]], low: int, snapping: Quantizer) -> Staircase:
    """The steps at the integers from which on edges are reached."""
    first, last = operand.range
    lines = real.lines()
    count = max(len(lines), len(rows))
    thresholds = np.array(
        [
            [_first_beyond(edge, *lines[k % len(lines)], real, first, last) for edge in rows[k % len(rows)]]
            for k in range(count)
        ],
        dtype=np.int64,
    )
    return Staircase(operand, Steps(first, last, low, low + thresholds.shape[1], thresholds), snapping.dtype)


def _first_beyond(edge: Edge, slope: Fraction, offset: Fraction, real: Real, first: int, last: int) -> int:
    """The least x of ``first..last + 1`` with ``clip(slope·x + offset, low, high)`` beyond an edge."""
    if (real.low is not None and _is_beyond(real.low, edge)) or (slope == 0 and _is_beyond(offset, edge)):
        return first
    if (real.high is not None and not _is_beyond(real.high, edge)) or slope == 0:
        return last + 1
    number, taken = edge
    place = (number - offset) / slope
    return min(max(ceil(place) if taken else floor(place) + 1, first), last + 1)


def _is_beyond(number: Fraction, edge: Edge) -> bool:
    return number > edge[0] or (number == edge[0] and edge[1])


def _counted(numbers: np.ndarray, rows: Sequence[Sequence[Edge]]) -> np.ndarray:
    """How many edges each number is beyond: (1 or channels, n) float64 to int64, of as many channels or more."""
    counts = np.zeros((max(len(numbers), len(rows)), numbers.shape[1]), dtype=np.int64)
    for k, count in enumerate(counts):
        for number, taken in rows[k % len(rows)]:
            row = numbers[k % len(numbers)]
            count += row >= float(number) if taken else row > float(number)
    return counts
