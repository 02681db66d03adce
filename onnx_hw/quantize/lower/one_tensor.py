"""What stands for the real numbers of one tensor becomes integers of a scale."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf, isinf

from onnx_hw.exact.integers import Int
from onnx_hw.exact.steps import round_half_even
from onnx_hw.onnx.model import Node
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantize.builder import Builder
from onnx_hw.quantize.lower.functions import finely_tabled, quantize_function, too_many
from onnx_hw.quantize.values import Clipped, Function, Integers, Real


def rounded(number: Fraction | float, step: Fraction, zero_point: int, bounds: tuple[int, int]) -> int:
    """The integer within ``bounds`` that stands for a number, which may be infinite."""
    if isinstance(number, float) and isinf(number):
        return bounds[number > 0]
    return min(max(round_half_even(Fraction(number) / step) + zero_point, bounds[0]), bounds[1])


def clipped(value: Clipped, step: Fraction, zero_point: int, bounds: tuple[int, int]) -> tuple[int, int]:
    """The bounds of a value as integers within ``bounds``.

    A clip commutes with rounding, which is monotone: the bound is rounded like everything else.
    """
    low, high = (-inf if value.low is None else value.low), (inf if value.high is None else value.high)
    return rounded(low, step, zero_point, bounds), rounded(high, step, zero_point, bounds)


def quantize_tensor(
    builder: Builder,
    node: Node,
    value: Real | Function,
    step: Fraction,
    zero_point: int,
    bounds: tuple[int, int],
    dtype: Int,
    *,
    name: str,
    output: str = "",
) -> Integers:
    """Integers of a tensor: those it has, if they stand for the same numbers, or others.

    Args:
        node: the QuantizeLinear.
        name, output: of the hardware node and its tensor.
    """
    if value.partial:
        whole = value.whole(builder.tensors[value.tensor].size)
        integers = quantize_tensor(builder, node, whole, step, zero_point, bounds, dtype, name=name, output=output)
        return builder.moved(integers, value.where, value.shape, node)
    if isinstance(value, Function):
        return quantize_function(builder, node, value, step, zero_point, bounds, dtype, name=name, output=output)
    if (
        set(value.slope) == {step}
        and set(value.offset) == {-step * zero_point}
        and builder.integer_type(value) == dtype
    ):
        low, high = builder.settled(value).range if value.clipped else (dtype.min, dtype.max)
        if bounds[0] <= low and high <= bounds[1]:
            return Integers(value.tensor, value.shape, value.where)
    operator = Requantize(
        builder.settled(value),
        tuple(slope / step for slope in value.slope),
        tuple(offset / step for offset in value.offset),
        *bounds,
        zero_point,
        dtype,
    )
    tensor = builder.add(name, operator, [value.tensor], node, output=output)
    return Integers(tensor, value.shape, builder.positions(value))


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
    clamp = Requantize(operand, (Fraction(1),), (Fraction(0),), int(low), int(high), 0, dtype)
    stream = builder.add(f"{node.label}/clamp", clamp, [real.tensor], node)
    return replace(real, tensor=stream, where=builder.positions(real), low=None, high=None)


def summed(builder: Builder, node: Node, *, zeros: bool = False) -> Real:
    """The data of an average or a sum, without bounds; a function of few integers becomes a fine table of them.

    Args:
        zeros: whether they are added up, too, so that an integer must stand for 0.

    Raises:
        Obstacle: it must be quantized.
    """
    value = builder.operand(node)
    if isinstance(value, Real | Function) and not value.partial:
        if isinstance(value, Real):
            value = unclipped(builder, node, value)
            if not value.clipped and not (zeros and value.zero_point is None):
                return value
        fine = finely_tabled(builder, node, value)
        if fine is not None:
            return fine
        if isinstance(value, Function):
            first, last = builder.settled(value).range
            raise too_many(builder, node, value, last - first + 1)
    raise builder.unfit(node)
