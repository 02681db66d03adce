"""QuantizeLinear, DequantizeLinear and Cast: conversions between integers and the real numbers they stand for."""

from __future__ import annotations

from contextlib import suppress
from math import inf

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import NotFinite, fractions
from onnx_hw.lower.builder import INTEGER_TYPES, Builder
from onnx_hw.lower.network_builder import IntegerStream
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.activation import bounds_of
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.clipped import narrowed
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node


@lowers("DequantizeLinear")
def dequantize(builder: Builder, node: Node) -> None:
    """Accept one scale for data, and one scale or one per channel for constants."""
    scale = builder.constant(node.inputs[1])
    if scale is None:
        raise Obstacle("scale-not-constant", "the scale must be a constant")
    zero = _zero_point(builder, node)
    stored = builder.constant(node.inputs[0])
    if stored is not None:
        builder.constants[node.outputs[0]] = dequantized_constant(stored, scale, zero, node)
        return
    value = IntegerStream.cast(builder.values.get(node.inputs[0]))
    if value is None:
        raise Obstacle("not-integers", f"the data `{node.inputs[0]}` of a DequantizeLinear must be integers")
    if scale.size != 1:
        raise Obstacle("per-channel-data", "data must have one scale, not one per channel")
    grid = _grid(builder.integer_type(value), scale, zero)
    ((slope, offset),) = grid.lines()
    builder.values[node.outputs[0]] = Real(value.tensor, value.shape, value.where, (slope,), (offset,))
    builder.grids.setdefault(value.tensor, grid)


@lowers("Cast")
def cast(builder: Builder, node: Node) -> None:
    """Accept a cast from integers of at most 16 bits to floats, or between floats."""
    if node.inputs[0] in builder.constants:
        builder.constants[node.outputs[0]] = builder.constants[node.inputs[0]]
        return
    element_type = builder.graph.values[node.outputs[0]].element_type
    if element_type not in ("float", "float16", "double", "bfloat16"):
        raise Obstacle("cast", f"a Cast in hardware must be to floats, not to {element_type}")
    value = builder.data(node)
    builder.values[node.outputs[0]] = Real.cast(value) or Real(value.tensor, value.shape, value.where)


def dequantized_constant(
    stored: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, node: Node
) -> QuantizedConstant:
    """Return a stored constant with its scales.

    The zero point is subtracted from the integers, and the sign of a scale becomes part of them.

    Raises:
        Obstacle: The scales are per block.
    """
    numbers = fractions(scale)
    axis = int(node.attributes.get("axis", 1))
    block = int(node.attributes.get("block_size", 0))
    if block:
        raise Obstacle("blocked-quantization", f"scales must be per tensor or per channel, not per block of {block}")
    axis = 0 if scale.size == 1 else axis % max(1, stored.ndim)
    along_axis = [-1 if k == axis and scale.size > 1 else 1 for k in range(stored.ndim)]
    integers = stored
    if zero is not None and zero.any():
        integers = integers.astype(np.int64) - zero.astype(np.int64).reshape(along_axis)
    if (scale < 0).any():
        integers = integers.astype(np.int64) * np.where(scale < 0, -1, 1).reshape(along_axis)
    return QuantizedConstant(integers, tuple(abs(number) for number in numbers), axis)


@lowers("QuantizeLinear")
def quantize(builder: Builder, node: Node) -> None:
    """Accept one scale and 2 to 16 bits."""
    value = builder.numbers(node)
    scale = builder.constant(node.inputs[1])
    if scale is None or scale.size != 1:
        raise Obstacle("per-channel-data", "the scale of data must be one constant")
    zero = _zero_point(builder, node)
    element_type = builder.graph.values[node.outputs[0]].element_type
    if element_type not in INTEGER_TYPES:
        raise Obstacle("element-type", f"data must be quantized to integers of 2 to 16 bits, not to {element_type}")
    grid = _grid(INTEGER_TYPES[element_type], scale, zero)
    integers = value.quantized(builder, node, grid)
    builder.values[node.outputs[0]] = integers
    builder.grids.setdefault(integers.tensor, _grid(builder.integer_type(integers), scale, zero))


def made_on_host(builder: Builder, node: Node, before: Node | None) -> Int:
    """Return the type of the integers that a QuantizeLinear on the host streams into the hardware.

    Args:
        before: the node that makes its input, None for a graph input; after a Clip fewer integers may occur.
    """
    dtype = INTEGER_TYPES[builder.graph.values[node.outputs[0]].element_type]
    scale = builder.constant(node.inputs[1])
    if before is None or before.op_type != "Clip" or before.domain or scale is None or scale.size != 1:
        return dtype
    with suppress(Obstacle, NotFinite):  # a function that needs the grid or the bounds refuses other numbers
        low, high = bounds_of(builder, before)
        grid = _grid(dtype, scale, _zero_point(builder, node))
        grid = grid.clipped(-inf if low is None else low, inf if high is None else high)
        return narrowed(builder, node, grid).dtype
    return dtype


def _grid(dtype: Int, scale: np.ndarray, zero: np.ndarray | None) -> Grid:
    """Return the grid of all integers of a type; raise ``Obstacle`` unless its one scale is positive."""
    (step,) = fractions(scale)
    if step <= 0:
        raise Obstacle("scale", f"a scale must be positive, not {float(step)}")
    return Grid.over(dtype, step, 0 if zero is None else int(zero.reshape(-1)[0]))


def _zero_point(builder: Builder, node: Node) -> np.ndarray | None:
    """Return the zero points of a node, one per scale; None where the node has no such input."""
    if len(node.inputs) < 3 or not node.inputs[2]:
        return None
    zero = builder.constant(node.inputs[2])
    if zero is None:
        raise Obstacle("zero-point-not-constant", "the zero point must be a constant")
    scale = builder.constant(node.inputs[1])
    if scale is not None and zero.size != scale.size:
        raise Obstacle(
            "zero-point-count", f"there must be one zero point per scale: {scale.size} of them, not {zero.size}"
        )
    return zero
