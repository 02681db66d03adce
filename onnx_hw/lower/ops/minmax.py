"""Max and Min of several tensors: each is quantized to the result's scale, whose integers have the numbers' order.

They travel one behind the other, pixel by pixel, as if each pixel were so many side by side: a pool finds the
greatest or the least of those.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.builder import Builder, Hardware, Obstacle
from onnx_hw.lower.ops.concat import common_axes, quantize_joined
from onnx_hw.lower.ops.data_movement import placed
from onnx_hw.lower.ops.kernel import Kernel
from onnx_hw.lower.ops.lookup import function_of, of_one_tensor
from onnx_hw.lower.ops.pool import pool_of
from onnx_hw.lower.ops.reduce import carry_scale
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values import Extrema, FunctionValue, IntegerStream, Joined, Real
from onnx_hw.onnx.graph.model import Node


@lowers("Max", "Min")
def extremum(builder: Builder, node: Node) -> None:
    """of quantized tensors; of one and constants of one value per channel, as an exact table"""
    tensors = [k for k, name in enumerate(node.inputs) if name in builder.values or name in builder.pending]
    if len(tensors) < 2 or of_one_tensor([builder.values.get(node.inputs[k]) for k in tensors]):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    if len(tensors) < len(node.inputs):
        told = f"{node.op_type} of several tensors and a constant is not built: it must be two nodes"
        raise Obstacle("two-tensors", told)
    shape = builder.shape(node.outputs[0])
    parts = tuple(_part(builder, node, k, shape) for k in tensors)
    builder.pending[node.outputs[0]] = _extrema_of(builder, node, node.op_type.lower(), parts, shape, node.label)


def greatest_on(builder: Builder, node: Node, value: FunctionValue, grid: Grid) -> IntegerStream:
    """Integers of a function that is the greatest of several lines."""
    parts = tuple(Real(value.tensor, value.shape, value.where, slope, offset) for slope, offset in value.pieces)
    waiting = _extrema_of(builder, node, "max", parts, value.shape, f"{node.label}/greatest")
    assert isinstance(waiting.value, Joined)
    made: IntegerStream = waiting.of_integers(builder, quantize_joined(builder, node, waiting.value, grid))
    return made


def _extrema_of(
    builder: Builder, node: Node, kind: str, parts: tuple[Real | FunctionValue, ...], shape: tuple[int, ...], name: str
) -> Extrema:
    """The greatest or the least of tensors of one shape, once they are quantized.

    Args:
        kind: ``max`` or ``min``.
        name: of the hardware node.
    """
    axis = common_axes(builder, parts)[-1]
    joined = tuple(size * (len(parts) if k == axis else 1) for k, size in enumerate(shape))

    def extrema(builder: Builder, value: Hardware) -> Hardware:
        height, width, channels = builder.tensors[value.tensor].shape
        each = channels // len(parts)
        pixels = np.arange(value.where.size).reshape(-1, each)
        beside = replace(value, shape=(1, each, height, width * len(parts)), where=pixels.T.reshape(-1))
        beside, tensor = builder.image(beside, node)
        size = 1, len(parts)
        pool = pool_of(tensor, kind, Kernel(size, size, (0, 0, 0, 0), (1, 1)), 0)
        stream = builder.add(name, pool, [beside.tensor], node, output=node.outputs[0])
        carry_scale(builder, value.tensor, stream)
        first = np.take(value.where.reshape(value.shape), range(shape[axis]), axis).reshape(-1)
        return replace(value, tensor=stream, shape=shape, where=first // channels * each + first % channels)

    return Extrema(Joined(parts, axis, joined), shape, extrema)


def _part(builder: Builder, node: Node, k: int, shape: tuple[int, ...]) -> Real | FunctionValue:
    """An input in the shape of the result.

    Raises:
        Obstacle: it must be quantized.
    """
    value = builder.values.get(node.inputs[k])
    if isinstance(value, Real | FunctionValue) and not value.partial and value.shape != shape:
        numbers = np.arange(value.where.size).reshape(value.shape)
        value = placed(builder, node, value, np.broadcast_to(numbers, shape), fill=0)
    if not isinstance(value, Real | FunctionValue) or value.partial:
        raise builder.unfit(node, k)
    return value
