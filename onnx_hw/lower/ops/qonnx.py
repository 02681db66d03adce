"""Quant, BipolarQuant, Trunc and MultiThreshold: quantizers whose results are the real numbers behind integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.rationals import check_finite, fractions
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.network_builder import IntegerStream, LoweredValue
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.constants import is_constant
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.quantizers import MAX_DATA_BITS, Quantizer, quantizer_of
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.per_channel import per_channel
from onnx_hw.lower.values.quantized_by import quantized_by
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.qonnx import DOMAINS


def _lower(builder: Builder, node: Node) -> None:
    if is_constant(builder, node.inputs[0]):
        builder.constants[node.outputs[0]] = snapped_constant(builder, node)
        return
    value = builder.operand(node)
    if value.is_integers:
        raise builder.obstacle(node)
    snapping = quantizer_of(node, len(value.shape), builder.exact_constant)
    if not snapping.has_one_grid:
        value = value.for_channel_grids(builder, node)
    snapping = snapping.bounded(value.ends(builder))
    if snapping.dtype.bits > MAX_DATA_BITS:
        builder.values[node.outputs[0]] = _unchanged(builder, node, value, snapping)
    else:
        builder.values[node.outputs[0]] = real_numbers_of(
            builder, quantized_by(builder, node, value, snapping), snapping
        )
    builder.snapped.add(node.outputs[0])


@lowers("Quant", "IntQuant", domains=DOMAINS)
def quant(builder: Builder, node: Node) -> None:
    """Accept 1 to 16 bits for data and any width for constants, with one scale or one per channel."""
    _lower(builder, node)


@lowers("BipolarQuant", domains=DOMAINS)
def bipolar_quant(builder: Builder, node: Node) -> None:
    """Make integers of one bit."""
    _lower(builder, node)


@lowers("Trunc", domains=DOMAINS)
def trunc(builder: Builder, node: Node) -> None:
    """Accept one scale."""
    _lower(builder, node)


@lowers("MultiThreshold", domains=DOMAINS)
def multi_threshold(builder: Builder, node: Node) -> None:
    """Accept ascending thresholds and an out_scale other than 0."""
    _lower(builder, node)


def snapped_on_host(builder: Builder, node: Node) -> Quantizer:
    """Return the quantizer of a node that the host computes before the hardware.

    Raises:
        Obstacle: Its integers have no bounds, or too many bits for the hardware.
    """
    snapping = quantizer_of(node, len(builder.shape(node.inputs[0])), builder.exact_constant)
    if snapping.low is None or snapping.high is None:
        raise Obstacle(
            "range-unknown", f"a {node.op_type} before the hardware must have bounds, as it has since version 2"
        )
    if snapping.dtype.bits > MAX_DATA_BITS:
        raise _too_wide(node, snapping)
    return snapping


def enter_snapped(builder: Builder, node: Node, entry: str) -> None:
    """Let the host stream in the integers behind the result of a node, under the name of the entry."""
    snapping, name = snapped_on_host(builder, node), node.outputs[0]
    shape = builder.shape(name)
    dtype = np.dtype(f"{'' if snapping.dtype.signed else 'u'}int{8 if snapping.dtype.bits <= 8 else 16}")
    integers = builder.add_input(entry, shape, snapping.dtype, dtype, of=name)
    builder.values[name] = real_numbers_of(builder, integers, snapping)
    builder.snapped.add(name)


def real_numbers_of(builder: Builder, integers: IntegerStream, snapping: Quantizer) -> Real:
    """Return the real numbers that the integers of a quantizer stand for."""
    slope, offset = (per_channel(builder, integers, array) for array in (snapping.step, snapping.offset))
    if len(slope) == len(offset) == 1:
        zero = (-offset[0] / slope[0],)
        dtype = builder.integer_type(integers)
        builder.grids.setdefault(integers.tensor, Grid(slope, zero, dtype.min, dtype.max, dtype))
    return Real(integers.tensor, integers.shape, integers.where, slope, offset)


def snapped_constant(builder: Builder, node: Node) -> QuantizedConstant:
    """Return a quantized constant, as the operator computes it in the model's own floats; ±1 has the integers ±1.

    Raises:
        Obstacle: Its scales do not lie along one axis, or a parameter is not constant.
    """
    arguments = [_floats(builder, name) for name in node.inputs]
    check_finite(arguments[0])
    snapping = quantizer_of(node, arguments[0].ndim, lambda name: _absolute(builder, node, name))
    (result,) = compute(node, arguments)
    divisor = np.lcm.reduce([Fraction(zero).denominator for zero in snapping.zero_point.reshape(-1)])
    step = np.asarray(snapping.step * Fraction(1, int(divisor)), dtype=object)
    integers = _multiples(result, step)
    axes = [k for k, n in enumerate((1,) * (result.ndim - step.ndim) + step.shape) if n > 1]
    if len(axes) > 1:
        raise Obstacle("weight-axis", f"a constant must have a scale per channel, not scales {list(step.shape)}")
    scale = tuple(Fraction(number) for number in step.reshape(-1))
    return QuantizedConstant(integers, scale, axes[0] if axes else 0)


def _multiples(numbers: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return the integers nearest to floats over steps, of which each has few multiples: equal pairs once.

    Args:
        step: Fractions, of a shape that is broadcast to that of ``numbers``.
    """
    distinct, which = np.unique(numbers.reshape(-1), return_inverse=True)
    steps = np.broadcast_to(np.arange(step.size).reshape(step.shape), numbers.shape).reshape(-1)
    pairs, place = np.unique(which.reshape(-1) * step.size + steps, return_inverse=True)
    rationals, divisors = fractions(distinct), step.reshape(-1)
    rounded = [round(rationals[pair // step.size] / divisors[pair % step.size]) for pair in pairs.tolist()]
    return np.array(rounded, dtype=np.int64)[place.reshape(-1)].reshape(numbers.shape)


def _absolute(builder: Builder, node: Node, name: str) -> np.ndarray | None:
    """Return a parameter, or the absolute value of a scale, whose sign is in the numbers of a constant."""
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


def _too_wide(node: Node, snapping: Quantizer) -> Obstacle:
    message = f"data must be quantized to {MAX_DATA_BITS} bits at most; this {node.op_type} has {snapping.dtype.bits}"
    return Obstacle("bit-width", message)


def _unchanged(builder: Builder, node: Node, value: LoweredValue, snapping: Quantizer) -> Real:
    """Return numbers that a quantizer with too many bits does not change, since they are on its grid already.

    Raises:
        Obstacle: The quantizer changes numbers, or may change them.
    """
    real = Real.cast(value)
    if real is not None and snapping.edges() is None and not real.partial and not real.is_clipped:
        steps, zeros = (per_channel(builder, real, array) for array in (snapping.step, snapping.zero_point))
        lines, (first, last) = real.lines(), builder.materialize(real).range
        count = max(len(lines), len(steps), len(zeros))
        per_channel_columns = (
            column * count if len(column) == 1 else column for column in (lines, list(steps), list(zeros))
        )
        for (slope, offset), step, zero in zip(*per_channel_columns, strict=True):
            factor, start = slope / step, offset / step + zero
            ends = sorted((factor * first + start, factor * last + start))
            assert snapping.low is not None and snapping.high is not None
            on_grid = factor.denominator == start.denominator == 1
            if not on_grid or ends[0] < snapping.low or ends[1] > snapping.high:
                raise _too_wide(node, snapping)
        return real
    raise _too_wide(node, snapping)
