"""Reductions over all pixels: global pools, and ReduceMean, ReduceSum, ReduceMax, ReduceMin over axes of space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.wide_quantized_add import MAX_WIDE_OPERAND_VALUES
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.network_builder import LoweredValue, NetworkBuilder, StreamValue, T
from onnx_hw.lower.obstacle import SCALES_MOVE, Obstacle
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.extrema import PendingExtrema
from onnx_hw.lower.values.real import Real, summed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.tensor import Tensor


@lowers("GlobalAveragePool")
def global_average_pool(builder: Builder, node: Node) -> None:
    _mean_or_sum(builder, node, tuple(range(2, len(builder.shape(node.inputs[0])))), mean=True)


@lowers("GlobalMaxPool")
def global_max_pool(builder: Builder, node: Node) -> None:
    _extremum(builder, node, tuple(range(2, len(builder.shape(node.inputs[0])))), "max")


@lowers("ReduceMean", "ReduceSum")
def reduce_mean(builder: Builder, node: Node) -> None:
    _mean_or_sum(builder, node, _axes(builder, node), mean=node.op_type == "ReduceMean")


@lowers("ReduceMax", "ReduceMin")
def reduce_max(builder: Builder, node: Node) -> None:
    _extremum(builder, node, _axes(builder, node), "max" if node.op_type == "ReduceMax" else "min")


def _axes(builder: Builder, node: Node) -> tuple[int, ...]:
    """Return the reduced axes: an attribute, since opset 18 (ReduceSum: 13) an input; by default all axes, or none."""
    rank = len(builder.shape(node.inputs[0]))
    axes = node.attributes.get("axes")
    if len(node.inputs) > 1 and node.inputs[1]:
        axes = builder.constant(node.inputs[1])
        if axes is None:
            raise Obstacle("not-constant", f"the axes of {node.op_type} must be constant")
    if axes is None or np.size(axes) == 0:
        return () if node.attributes.get("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({int(axis) % rank for axis in np.asarray(axes).reshape(-1)}))


def _mean_or_sum(builder: Builder, node: Node, axes: tuple[int, ...], *, mean: bool) -> None:
    """Reduce pixels to their mean or sum.

    The mean of ``slope·x + offset`` over n pixels is ``(slope / n)·Σx + offset``; the sum is n times the mean. A sum of
    two tensors that waits for a quantizer becomes a sum of their means.
    """
    name, result = node.inputs[0], node.outputs[0]
    pending = None if name in builder.values else builder.pending.get(name)
    if pending is not None:

        def reduced(real: Real, which: str) -> Real:
            """Reduce one operand, since the operands' steps have no simple ratio and need separate sums."""
            low, high = builder.tensors[real.tensor].range
            real, tensor = _pixels(builder, node, real, axes)
            if real.error or (high - low) * tensor.pixels >= MAX_WIDE_OPERAND_VALUES:
                raise builder.obstacle(node)
            stream = builder.add(f"{node.label}/{which}", Reduce(tensor, "sum"), [real.tensor], node)
            return _of_sums(builder, node, real, tensor, stream, mean=mean)

        if (sum_of_two := pending.of_both_operands(reduced)) is not None:
            builder.pending[result] = sum_of_two
            return
    real, tensor = _pixels(builder, node, summed(builder, node), axes)
    stream = builder.add(node.label, Reduce(tensor, "sum"), [real.tensor], node, output=result)
    builder.values[result] = _of_sums(builder, node, real, tensor, stream, mean=mean)


def _of_sums(builder: Builder, node: Node, real: Real, tensor: Tensor, stream: str, *, mean: bool) -> Real:
    """Return the numbers that the sums over all pixels of a tensor stand for."""
    shape, n = builder.shape(node.outputs[0]), tensor.pixels
    slope = tuple(s * Fraction(1, n) for s in real.slope) if mean else real.slope
    offset = real.offset if mean else tuple(n * o for o in real.offset)
    error = real.error if mean else n * real.error
    return Real(stream, shape, np.arange(tensor.channels), slope, offset, error=error)


def _extremum(builder: Builder, node: Node, axes: tuple[int, ...], kind: str) -> None:
    shape = builder.shape(node.outputs[0])

    def extrema(builder: NetworkBuilder, value: StreamValue) -> StreamValue:
        value, tensor = _pixels(builder, node, value, axes)
        stream = builder.add(node.label, Reduce(tensor, kind), [value.tensor], node, output=node.outputs[0])
        builder.carry_grid(value.tensor, stream)
        return replace(value, tensor=stream, shape=shape, where=np.arange(tensor.channels))

    postpone_extrema(builder, node, builder.operand(node), extrema)


def postpone_extrema(
    builder: Builder, node: Node, value: LoweredValue, extrema: Callable[[NetworkBuilder, StreamValue], StreamValue]
) -> None:
    """Take maxima or minima of the integers on a stream, now or after they are quantized.

    They wait for the quantizer where the integers do not have the order of the numbers, or where channels with
    different scales would have to move.

    Args:
        extrema: function that adds the operator of maxima or minima to the network.
    """
    result = node.outputs[0]
    stream = StreamValue.cast(value)
    if stream is not None and stream.keeps_order(builder):
        try:
            builder.values[result] = extrema(builder, stream)
            return
        except Obstacle as obstacle:
            if obstacle.code != SCALES_MOVE:
                raise
    assert not value.is_integers
    builder.pending[result] = PendingExtrema(value, builder.shape(result), extrema)


def _pixels(builder: NetworkBuilder, node: Node, value: T, axes: tuple[int, ...]) -> tuple[T, Tensor]:
    """Return the value on a stream, and the stream's tensor.

    The pixels are the reduced axes, the channels are the other axes, each in their order.
    """
    kept: tuple[int, ...] = tuple(a for a in range(len(value.shape)) if a not in axes)
    order = np.arange(value.where.size).reshape(value.shape).transpose((*axes, *kept)).reshape(-1)
    channels = int(np.prod([value.shape[a] for a in kept], dtype=np.int64))
    pixels = value.where.size // channels
    lengths = [value.shape[a] for a in axes if value.shape[a] > 1]
    height, width = (lengths[0], lengths[1]) if len(lengths) == 2 else (1, pixels)
    tensor = builder.tensors.get(value.tensor)
    if tensor is not None and builder.stream_order(value) is not None:
        # the order of the pixels does not matter
        positions = builder.positions(value).reshape(value.shape).transpose((*axes, *kept)).reshape(pixels, channels)
        in_place = tensor.channels == channels and (positions % channels == np.arange(channels)).all()
        if in_place and (positions // channels == positions[:, :1] // channels).all():
            return value, tensor
    value = builder.request_layout(value, Layout((height, width, channels), order), node)
    return value, builder.tensors[value.tensor]
