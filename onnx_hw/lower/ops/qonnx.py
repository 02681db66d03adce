"""Quant, BipolarQuant, Trunc and MultiThreshold: real numbers become those that integers of a scale stand for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TypeGuard

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.rationals import fractions
from onnx_hw.lower.builder import Builder, Obstacle
from onnx_hw.lower.ops.binary import in_one_tensor
from onnx_hw.lower.ops.constant_arithmetic import scaled
from onnx_hw.lower.ops.constants import is_constant, per_channel
from onnx_hw.lower.ops.lookup import integers_of_function
from onnx_hw.lower.ops.per_channel_steps import fill_of, of_tensor
from onnx_hw.lower.ops.qdq import integers_on
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.quantizers import WIDEST, Counted, Quantizer, Rounded, Truncated, snapping_of
from onnx_hw.lower.values import (
    Extrema,
    FunctionValue,
    IntegerStream,
    Operand,
    PendingProduct,
    PendingSum,
    QuantizedConstant,
    Real,
    Surrounded,
)
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.qonnx import DOMAINS


def _lower(builder: Builder, node: Node) -> None:
    if is_constant(builder, node.inputs[0]):
        builder.constants[node.outputs[0]] = snapped_constant(builder, node)
        return
    value = builder.operand(node)
    if isinstance(value, IntegerStream):
        raise builder.unfit(node)
    snapping = snapping_of(node, len(value.shape), builder.exact_constant)
    if isinstance(value, PendingSum | PendingProduct) and not _has_one_grid(snapping):
        value = in_one_tensor(builder, node, value)
    snapping = bounded(snapping, builder, value)
    if snapping.dtype.bits > WIDEST:
        builder.values[node.outputs[0]] = _as_it_is(builder, node, value, snapping)
    else:
        builder.values[node.outputs[0]] = standing_for(builder, _integers(builder, node, value, snapping), snapping)
    builder.snapped.add(node.outputs[0])


@lowers("Quant", "IntQuant", domains=DOMAINS)
def quant(builder: Builder, node: Node) -> None:
    """1 to 16 bits of data, any of constants; one scale, or one per channel"""
    _lower(builder, node)


@lowers("BipolarQuant", domains=DOMAINS)
def bipolar_quant(builder: Builder, node: Node) -> None:
    """in one bit"""
    _lower(builder, node)


@lowers("Trunc", domains=DOMAINS)
def trunc(builder: Builder, node: Node) -> None:
    """one scale"""
    _lower(builder, node)


@lowers("MultiThreshold", domains=DOMAINS)
def multi_threshold(builder: Builder, node: Node) -> None:
    """ascending thresholds, an out_scale other than 0"""
    _lower(builder, node)


def snapped_on_host(builder: Builder, node: Node) -> Quantizer:
    """What a node makes that the host computes before the hardware.

    Raises:
        Obstacle: hardware has no integers for it.
    """
    snapping = snapping_of(node, len(builder.shape(node.inputs[0])), builder.exact_constant)
    if snapping.low is None or snapping.high is None:
        raise Obstacle("range-unknown", f"a {node.op_type} before the hardware must have bounds: that of version 2 has")
    if snapping.dtype.bits > WIDEST:
        raise _too_wide(node, snapping)
    return snapping


def enter_snapped(builder: Builder, node: Node, entry: str) -> None:
    """Let the host stream in the integers behind the result of a node, under the name of the entry."""
    snapping, name = snapped_on_host(builder, node), node.outputs[0]
    shape = builder.shape(name)
    dtype = np.dtype(f"{'' if snapping.dtype.signed else 'u'}int{8 if snapping.dtype.bits <= 8 else 16}")
    integers = builder.enter(entry, shape, snapping.dtype, dtype, of=name)
    builder.values[name] = standing_for(builder, integers, snapping)
    builder.snapped.add(name)


def standing_for(builder: Builder, integers: IntegerStream, snapping: Quantizer) -> Real:
    """The real numbers behind integers."""
    slope, offset = (per_channel(builder, integers, array) for array in (snapping.step, snapping.offset))
    if len(slope) == len(offset) == 1:
        zero = (-offset[0] / slope[0],)
        dtype = builder.integer_type(integers)
        builder.grids.setdefault(integers.tensor, Grid(slope, zero, dtype.min, dtype.max, dtype))
    return Real(integers.tensor, integers.shape, integers.where, slope, offset)


def snapped_constant(builder: Builder, node: Node) -> QuantizedConstant:
    """A constant on its grid, as the operator computes it in the model's own floats; ±1 has the integers ±1."""
    exact = builder.exact_constant(node.inputs[0])
    assert exact is not None
    snapping = snapping_of(node, exact.ndim, lambda name: _absolute(builder, node, name))
    arguments = [_floats(builder, name) for name in node.inputs]
    (result,) = compute(node, arguments)
    numbers = np.array(fractions(result), dtype=object).reshape(result.shape)
    parts = np.lcm.reduce([Fraction(zero).denominator for zero in snapping.zero_point.reshape(-1)])
    step = np.asarray(snapping.step * Fraction(1, int(parts)), dtype=object)
    counted = np.asarray(numbers / step, dtype=object)
    integers = np.array([round(number) for number in counted.reshape(-1)], dtype=np.int64).reshape(result.shape)
    axes = [k for k, n in enumerate((1,) * (result.ndim - step.ndim) + step.shape) if n > 1]
    if len(axes) > 1:
        raise Obstacle("weight-axis", f"a constant must have a scale per channel, not scales {list(step.shape)}")
    scale = tuple(Fraction(number) for number in step.reshape(-1))
    return QuantizedConstant(integers, scale, axes[0] if axes else 0)


def _absolute(builder: Builder, node: Node, name: str) -> np.ndarray | None:
    """A parameter; of a scale its absolute value: the sign is in the numbers of a constant."""
    array = builder.exact_constant(name)
    return array if array is None or name != node.inputs[1] else np.asarray(np.abs(array), dtype=object)


def _floats(builder: Builder, name: str) -> np.ndarray:
    plain = builder.constant(name)
    if plain is not None:
        return plain
    exact = builder.exact_constant(name)
    if exact is None:
        raise Obstacle("scale-not-constant", f"`{name}` must be constant")
    return exact.astype(np.float32)


def bounded(snapping: Quantizer, builder: Builder, value: Operand) -> Quantizer:
    """With the integers that occur, where only the data says which those are."""
    if snapping.low is not None and snapping.high is not None:
        return snapping
    if not isinstance(snapping, Truncated) or not isinstance(value, Real):
        raise Obstacle("range-unknown", "the data of a Trunc must be integers of a scale")
    first, last = builder.settled(value).range
    ends = [_clipped(value, slope * x + offset) for slope, offset in value.lines() for x in (first, last)]
    integers = [snapping.integer(end) for end in ends]
    return replace(snapping, low=min(integers), high=max(integers))


def _clipped(value: Real, number: Fraction) -> Fraction:
    number = number if value.low is None else max(number, value.low)
    return number if value.high is None else min(number, value.high)


def _has_one_grid(snapping: Quantizer) -> TypeGuard[Rounded]:
    return isinstance(snapping, Rounded) and snapping.step.size == snapping.zero_point.size == 1


def _too_wide(node: Node, snapping: Quantizer) -> Obstacle:
    message = f"data must be quantized to {WIDEST} bits at most, not to the {snapping.dtype.bits} of {node.op_type}"
    return Obstacle("bit-width", message)


def _as_it_is(builder: Builder, node: Node, value: Operand, snapping: Quantizer) -> Real:
    """Numbers that are on a grid of many integers already."""
    if isinstance(value, Real) and isinstance(snapping, Rounded) and not value.partial and not value.clipped:
        steps, zeros = (per_channel(builder, value, array) for array in (snapping.step, snapping.zero_point))
        lines, (first, last) = value.lines(), builder.settled(value).range
        count = max(len(lines), len(steps), len(zeros))
        each = (column * count if len(column) == 1 else column for column in (lines, list(steps), list(zeros)))
        for (slope, offset), step, zero in zip(*each, strict=True):
            factor, start = slope / step, offset / step + zero
            ends = sorted((factor * first + start, factor * last + start))
            assert snapping.low is not None and snapping.high is not None
            whole = factor.denominator == start.denominator == 1
            if not whole or ends[0] < snapping.low or ends[1] > snapping.high:
                raise _too_wide(node, snapping)
        return value
    raise _too_wide(node, snapping)


def _integers(builder: Builder, node: Node, value: Operand, snapping: Quantizer) -> IntegerStream:
    """What stands for a value on a grid."""
    if isinstance(snapping, Counted) and snapping.falls and not isinstance(value, Surrounded):
        return _falling(builder, node, value, snapping)
    if _has_one_grid(snapping):
        assert snapping.low is not None and snapping.high is not None  # only those of a Trunc are not known
        (step,), (zero,) = snapping.step.reshape(-1), snapping.zero_point.reshape(-1)
        grid = Grid((step,), (zero,), snapping.low, snapping.high, snapping.dtype, snapping.rounding)
        return integers_on(builder, node, value, grid)
    match value:
        case Real() if value.error:  # its numbers are those of a table, and may be next to an edge
            raise builder.unfit(node)
        case Real() | FunctionValue():
            return of_tensor(builder, node, value, snapping)
        case Extrema():
            return value.of_integers(builder, _integers(builder, node, value.value, snapping))
        case Surrounded():
            fill = fill_of(snapping, value.fill)
            if fill is not None:
                inside = _integers(builder, node, value.value, snapping)
                return builder.moved(inside, value.origin.reshape(-1), value.shape, node, fill=fill)
    raise builder.unfit(node)


def _falling(builder: Builder, node: Node, value: Operand, snapping: Counted) -> IntegerStream:
    """Of thresholds whose steps lead down: of sums with the other sign, or by a table behind steps that lead up."""
    sums = isinstance(value, Real) and not value.error
    turned = scaled(builder, node, value, (Fraction(-1),), (Fraction(0),)) if sums and isinstance(value, Real) else None
    if turned is not None:
        return of_tensor(builder, node, turned, snapping.turned())
    counts = _integers(builder, node, value, replace(snapping, falls=False))
    down = FunctionValue(counts.tensor, counts.shape, counts.where, lambda x: len(snapping.thresholds[0]) - x)
    names = {"name": f"{node.label}/falling", "output": f"{node.outputs[0]}/falling"}
    return integers_of_function(builder, node, down, lambda x: x.astype(np.int64), snapping.dtype, **names)
