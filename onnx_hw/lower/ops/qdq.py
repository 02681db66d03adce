"""QuantizeLinear and DequantizeLinear: the border between integers and the real numbers they stand for."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import inf

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import NotFinite, fractions
from onnx_hw.lower.builder import INTEGER_TYPES, Builder, Obstacle
from onnx_hw.lower.ops.activation import bounds_of
from onnx_hw.lower.ops.binary import quantize_product, quantize_sum
from onnx_hw.lower.ops.concat import quantize_joined
from onnx_hw.lower.ops.data_movement import placed
from onnx_hw.lower.ops.minmax import greatest_on
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.ops.requantize import clipped, quantize_tensor
from onnx_hw.lower.values import (
    Clipped,
    Extrema,
    FunctionValue,
    IntegerStream,
    Joined,
    Operand,
    PendingProduct,
    PendingSum,
    QuantizedConstant,
    Real,
    Surrounded,
)
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of

MOST_STEPS = 12
"""Bits of the integers of a function that has a step for each; those of a leak cost less as two lines."""


@lowers("DequantizeLinear")
def dequantize(builder: Builder, node: Node) -> None:
    """one scale for data, one or one per channel for constants"""
    scale = builder.constant(node.inputs[1])
    if scale is None:
        raise Obstacle("scale-not-constant", "the scale must be a constant")
    zero = _zero_point(builder, node)
    stored = builder.constant(node.inputs[0])
    if stored is not None:
        builder.constants[node.outputs[0]] = dequantized_constant(stored, scale, zero, node)
        return
    value = builder.values.get(node.inputs[0])
    if not isinstance(value, IntegerStream):
        raise Obstacle("not-integers", f"`{node.inputs[0]}` must be integers")
    if scale.size != 1:
        raise Obstacle("per-channel-data", "data must have one scale, not one per channel")
    grid = _grid(builder.integer_type(value), scale, zero)
    ((slope, offset),) = grid.lines()
    builder.values[node.outputs[0]] = Real(value.tensor, value.shape, value.where, (slope,), (offset,))
    builder.grids.setdefault(value.tensor, grid)


@lowers("Cast")
def cast(builder: Builder, node: Node) -> None:
    """from integers of at most 16 bits, or between floats"""
    if node.inputs[0] in builder.constants:
        builder.constants[node.outputs[0]] = builder.constants[node.inputs[0]]
        return
    element_type = builder.graph.values[node.outputs[0]].element_type
    if element_type not in ("float", "float16", "double", "bfloat16"):
        raise Obstacle("cast", f"a Cast in hardware must be to floats, not to {element_type}")
    value = builder.data(node)
    if isinstance(value, IntegerStream):
        value = Real(value.tensor, value.shape, value.where)
    builder.values[node.outputs[0]] = value


def dequantized_constant(
    stored: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, node: Node
) -> QuantizedConstant:
    """A stored constant with its scales; the zero point is subtracted, the sign of a scale goes into the integers."""
    integers = stored.astype(np.int64)
    numbers = fractions(scale)
    axis = int(node.attributes.get("axis", 1))
    block = int(node.attributes.get("block_size", 0))
    if block:
        raise Obstacle("blocked-quantization", f"scales must be per tensor or per channel, not per block of {block}")
    if scale.size == 1:
        integers = integers - (0 if zero is None else int(zero.reshape(-1)[0]))
        return QuantizedConstant(integers if numbers[0] >= 0 else -integers, (abs(numbers[0]),))
    axis %= max(1, integers.ndim)
    along_axis = [-1 if k == axis else 1 for k in range(integers.ndim)]
    if zero is not None:
        integers = integers - zero.astype(np.int64).reshape(along_axis)
    signs = np.where(scale < 0, -1, 1).reshape(along_axis)
    return QuantizedConstant(integers * signs, tuple(abs(number) for number in numbers), axis)


@lowers("QuantizeLinear")
def quantize(builder: Builder, node: Node) -> None:
    """one scale; 2 to 16 bits"""
    made = builder.values.get(node.inputs[0])
    value = builder.pending.get(node.inputs[0]) or (
        made if isinstance(made, FunctionValue) else builder.real(node, partial=True)
    )
    scale = builder.constant(node.inputs[1])
    if scale is None or scale.size != 1:
        raise Obstacle("per-channel-data", "the scale of data must be one constant")
    zero = _zero_point(builder, node)
    element_type = builder.graph.values[node.outputs[0]].element_type
    if element_type not in INTEGER_TYPES:
        raise Obstacle("element-type", f"data must be quantized to 2..16 bit integers, not {element_type}")
    grid = _grid(INTEGER_TYPES[element_type], scale, zero)
    integers = integers_on(builder, node, value, grid)
    builder.values[node.outputs[0]] = integers
    builder.grids.setdefault(integers.tensor, _grid(builder.integer_type(integers), scale, zero))


def made_on_host(builder: Builder, node: Node, before: Node | None) -> Int:
    """The type of integers that enter the hardware.

    Args:
        node: the QuantizeLinear that makes them there.
        before: the node that makes what it reads; a Clip may tell that there are fewer than the model's type holds.
    """
    dtype = INTEGER_TYPES[builder.graph.values[node.outputs[0]].element_type]
    scale = builder.constant(node.inputs[1])
    if before is None or before.op_type != "Clip" or before.domain or scale is None or scale.size != 1:
        return dtype
    with suppress(Obstacle, NotFinite):  # what is no grid, and what is no bound, is refused by those who need one
        low, high = bounds_of(builder, before)
        grid = _grid(dtype, scale, _zero_point(builder, node))
        grid = grid.clipped(-inf if low is None else low, inf if high is None else high)
        return _narrowed(builder, node, grid).dtype
    return dtype


def integers_on(builder: Builder, node: Node, value: Operand, grid: Grid) -> IntegerStream:
    """What stands for a value on a grid."""
    if isinstance(value, Clipped):
        grid = _narrowed(builder, node, clipped(value, grid))
    match value:
        case FunctionValue(pieces=[_, *_], partial=False) if grid.dtype.bits > MOST_STEPS:
            return greatest_on(builder, node, value, grid)
        case Real() | FunctionValue():
            return quantize_tensor(builder, node, value, grid, name=node.label, output=node.outputs[0])
        case PendingSum():
            return quantize_sum(builder, node, value, grid)
        case PendingProduct():
            return quantize_product(builder, node, value, grid)
        case Joined():
            return quantize_joined(builder, node, value, grid)
        case Surrounded():
            inside = integers_on(builder, node, value.value, grid)
            fill = grid.integer(value.fill)
            return placed(builder, node, inside, value.origin, fill=fill)
        case Extrema():
            return value.of_integers(builder, integers_on(builder, node, value.value, grid))


def _narrowed(builder: Builder, node: Node, grid: Grid) -> Grid:
    """With the type whose integers it uses, all of them: a clip to a width that ONNX has no type for, say 6 bits.

    Who reads the integers of a QuantizeLinear as they are, a Pad for one, may want others of the model's type.
    """
    used = Int.holding(grid.low, grid.high)
    if (used.signed, used.min, used.max) != (grid.dtype.signed, grid.low, grid.high) or used == grid.dtype:
        return grid
    if facts_of(node).effect is Effect.SNAPS:
        return replace(grid, dtype=used)
    readers = [reader for reader in builder.graph.nodes if node.outputs[0] in reader.inputs]
    plain = all(facts_of(reader).effect is Effect.DEQUANTIZES for reader in readers)
    return replace(grid, dtype=used) if plain and used.min <= grid.zeros[0] <= used.max else grid


def _grid(dtype: Int, scale: np.ndarray, zero: np.ndarray | None) -> Grid:
    """All integers of a type, with one scale.

    Raises:
        Obstacle: it is not positive.
    """
    (step,) = fractions(scale)
    if step <= 0:
        raise Obstacle("scale", f"a scale must be positive, not {float(step)}")
    return Grid.over(dtype, step, 0 if zero is None else int(zero.reshape(-1)[0]))


def _zero_point(builder: Builder, node: Node) -> np.ndarray | None:
    if len(node.inputs) < 3 or not node.inputs[2]:
        return None
    zero = builder.constant(node.inputs[2])
    if zero is None:
        raise Obstacle("zero-point-not-constant", "the zero point must be a constant")
    scale = builder.constant(node.inputs[1])
    if scale is not None and zero.size != scale.size:
        raise Obstacle("zero-point-count", f"there must be a zero point per scale, {scale.size}, not {zero.size}")
    return zero
