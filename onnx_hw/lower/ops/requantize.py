"""What stands for the real numbers of one tensor becomes integers of a scale."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf, lcm

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.lower.builder import Builder, Obstacle
from onnx_hw.lower.ops.lookup import finely_tabled, quantize_function, too_many
from onnx_hw.lower.values import Clipped, FunctionValue, IntegerStream, Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.requantize import Requantize


def clipped(value: Clipped, grid: Grid) -> Grid:
    """The grid for the numbers of a value, whose bounds it has."""
    return grid.clipped(-inf if value.low is None else value.low, inf if value.high is None else value.high)


def quantize_tensor(
    builder: Builder,
    node: Node,
    value: Real | FunctionValue,
    grid: Grid,
    *,
    name: str,
    output: str = "",
) -> IntegerStream:
    """Integers of a tensor: those it has, if they stand for the same numbers, or others.

    Args:
        node: the QuantizeLinear.
        grid: with one step, like all data.
        name, output: of the hardware node and its tensor.
    """
    if value.partial:
        whole = value.whole(builder.tensors[value.tensor].size)
        integers = quantize_tensor(builder, node, whole, grid, name=name, output=output)
        return builder.moved(integers, value.where, value.shape, node)
    if isinstance(value, FunctionValue):
        return quantize_function(builder, node, value, grid, name=name, output=output)
    dtype = grid.dtype
    if set(value.lines()) == set(grid.lines()) and builder.integer_type(value) == dtype:
        low, high = builder.settled(value).range if value.clipped else (dtype.min, dtype.max)
        if grid.low <= low and high <= grid.high:
            return IntegerStream(value.tensor, value.shape, value.where)
    if value.error > NEAR_A_TIE * grid.step[0]:
        raise Obstacle(
            COARSE_TABLE,
            f"sums of a function's numbers must be within {float(NEAR_A_TIE):g} of a step of `{node.inputs[0]}`, "
            f"{float(grid.step[0]):g}; from a table they may be {float(value.error):g} off",
            "put QuantizeLinear and DequantizeLinear behind the function, or quantize its sum with a larger scale",
        )
    operator = Requantize(builder.settled(value), value.slope, value.offset, grid)
    tensor = builder.add(name, operator, [value.tensor], node, output=output)
    return IntegerStream(tensor, value.shape, builder.positions(value))


NEAR_A_TIE = Fraction(1, 1000)
"""Of a step: as far as that from the middle between two integers nobody can tell which of them is right."""

COARSE_TABLE = "coarse-table"
"""Code of the obstacle that no table is fine enough for a scale."""

MOST_BITS = 20
"""Of integers that are counted from another zero: what makes them has a threshold for each."""

MOST_CLAMPED = 1 << 16
"""Integers in the range of a tensor whose bounds become integers."""


def unclipped(builder: Builder, node: Node, real: Real) -> Real:
    """The same numbers without bounds: of clamped integers, where integers stand for the bounds; else as they are."""
    if not real.clipped or real.partial:
        return real
    first, last = builder.settled(real).range
    lines = set(real.lines())
    if real.low is not None and all(slope * first + offset >= real.low for slope, offset in lines):
        real = replace(real, low=None)
    if real.high is not None and all(slope * last + offset <= real.high for slope, offset in lines):
        real = replace(real, high=None)
    slope, offset = lines.pop()
    if not real.clipped or lines or slope == 0 or last - first >= MOST_CLAMPED:
        return real
    low, high = (
        Fraction(end) if bound is None else (bound - offset) / slope
        for bound, end in ((real.low, first), (real.high, last))
    )
    dtype = builder.integer_type(real)
    if low.denominator != 1 or high.denominator != 1 or not dtype.min <= low <= high <= dtype.max:
        return real
    operand = builder.tensors[real.tensor]
    clamp = Requantize(operand, (Fraction(1),), (Fraction(0),), Grid.over(dtype).within(int(low), int(high)))
    stream = builder.add(f"{node.label}/clamp", clamp, [real.tensor], node)
    return replace(real, tensor=stream, where=builder.positions(real), low=None, high=None)


def counted_from_zero(builder: Builder, node: Node, real: Real, name: str, widest: int = MOST_BITS) -> Real | None:
    """Numbers on integers of which 0 stands for 0: where none did, their steps are a part of the others.

    None where those integers need more than ``widest`` bits: a bias may be any part of a step.

    Args:
        name: of the hardware node.
    """
    zeros = [-offset / slope for slope, offset in real.lines()]
    parts = lcm(*(zero.denominator for zero in zeros))
    places = tuple(-zero * parts for zero in (zeros if len(set(zeros)) > 1 else zeros[:1]))
    tensor = builder.settled(real)
    first, last = (parts * bound for bound in tensor.range)
    low, high = int(first + min(places)), int(last + max(places))
    dtype = Int.holding(min(low, 0), max(high, 0))
    if dtype.bits > widest:
        return None
    grid = Grid.over(dtype).within(low, high)
    stream = builder.add(name, Requantize(tensor, (Fraction(parts),), places, grid), [real.tensor], node)
    slope = tuple(number / parts for number in real.slope)
    return replace(real, tensor=stream, where=builder.positions(real), slope=slope, offset=(Fraction(0),))


def summed(builder: Builder, node: Node, *, zeros: bool = False) -> Real:
    """The data of an average or a sum, without bounds; a function of few integers becomes a fine table of them.

    Args:
        zeros: whether they are added up, too, so that an integer must stand for 0.

    Raises:
        Obstacle: it must be quantized.
    """
    value = builder.values.get(node.inputs[0]) or builder.operand(node)
    if isinstance(value, Real | FunctionValue) and not value.partial:
        if isinstance(value, Real):
            value = unclipped(builder, node, value)
            if not value.clipped and not (zeros and value.zero_point is None):
                return value
        fine = finely_tabled(builder, node, value)
        if fine is not None:
            return fine
        if isinstance(value, FunctionValue):
            first, last = builder.settled(value).range
            raise too_many(builder, node, value, last - first + 1)
    raise builder.unfit(node)
