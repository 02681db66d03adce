"""Pools: a maximum stays in the integers, an average is a sum whose divisor goes into the scale."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from onnx_hw.network import Tensor
from onnx_hw.onnx.model import Node
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.quantize.builder import Builder, Hardware, Obstacle
from onnx_hw.quantize.lower.registry import lowers
from onnx_hw.quantize.lower.windows import Kernel, kernel_of
from onnx_hw.quantize.values import Real


def _data(builder: Builder, node: Node) -> Hardware:
    value = builder.values.get(node.inputs[0])
    if value is None:
        raise Obstacle("not-quantized", f"`{node.inputs[0]}` must be in hardware")
    return value


@lowers("MaxPool")
def max_pool(builder: Builder, node: Node) -> None:
    """without indices"""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Obstacle("maxpool-indices", "the indices of a MaxPool are not built: only its first output is")
    value = _data(builder, node)
    tensor, (height, width, _) = builder.image(value)
    shape = builder.shape(node.outputs[0])
    size = tuple(int(n) for n in node.attributes["kernel_shape"])
    kernel = kernel_of(node, size, (height, width), shape[2:])
    pool = _pool(tensor, "max", kernel, tensor.dtype.min)
    stream = builder.add(node.label, pool, [value.tensor], node, output=node.outputs[0])
    _carry_scale(builder, value.tensor, stream)
    builder.values[node.outputs[0]] = replace(value, tensor=stream, shape=shape, where=builder.image_where(shape))


@lowers("AveragePool")
def average_pool(builder: Builder, node: Node) -> None:
    """pads only with count_include_pad = 1"""
    real = _unclipped(builder, node)
    tensor, (height, width, _) = builder.image(real)
    shape = builder.shape(node.outputs[0])
    size = tuple(int(n) for n in node.attributes["kernel_shape"])
    kernel = kernel_of(node, size, (height, width), shape[2:])
    zero_point = 0
    if any(kernel.pads):
        if not node.attributes.get("count_include_pad", 0) or node.attributes.get("ceil_mode", 0):
            raise Obstacle("average-pads", "a padded AveragePool must count its pads (count_include_pad = 1)")
        if real.zero_point is None:
            raise Obstacle("not-quantized", f"the data `{node.inputs[0]}` must be quantized here")
        zero_point = real.zero_point
    pool = _pool(tensor, "sum", kernel, zero_point)
    stream = builder.add(node.label, pool, [real.tensor], node, output=node.outputs[0])
    taps = kernel.size[0] * kernel.size[1]
    builder.values[node.outputs[0]] = _mean(real, stream, shape, builder, taps)


@lowers("GlobalAveragePool")
def global_average_pool(builder: Builder, node: Node) -> None:
    real = _unclipped(builder, node)
    tensor, _ = builder.image(real)
    stream = builder.add(node.label, Reduce(tensor, "sum"), [real.tensor], node, output=node.outputs[0])
    builder.values[node.outputs[0]] = _mean(real, stream, builder.shape(node.outputs[0]), builder, tensor.pixels)


@lowers("GlobalMaxPool")
def global_max_pool(builder: Builder, node: Node) -> None:
    value = _data(builder, node)
    tensor, _ = builder.image(value)
    shape = builder.shape(node.outputs[0])
    stream = builder.add(node.label, Reduce(tensor, "max"), [value.tensor], node, output=node.outputs[0])
    _carry_scale(builder, value.tensor, stream)
    builder.values[node.outputs[0]] = replace(value, tensor=stream, shape=shape, where=builder.image_where(shape))


def _pool(tensor: Tensor, kind: str, kernel: Kernel, pad_value: int) -> Operator:
    """A single window over the whole image is a reduction, which needs no line buffer."""
    if kernel.size == tensor.shape[:2] and not any(kernel.pads):
        return Reduce(tensor, kind)
    return Pool(tensor, kind, kernel.size, kernel.strides, kernel.pads, pad_value, kernel.dilations)


def _carry_scale(builder: Builder, source: str, result: str) -> None:
    if source in builder.quantization:
        builder.quantization[result] = builder.quantization[source]


def _unclipped(builder: Builder, node: Node) -> Real:
    real = builder.real(node)
    if real.clipped:
        raise Obstacle("after-clip", "between a Relu or Clip and an average there must be a QuantizeLinear")
    return real


def _mean(real: Real, stream: str, shape: tuple[int, ...], builder: Builder, count: int) -> Real:
    """The mean of ``slope·x + offset`` is ``(slope / count)·Σx + offset``."""
    slope = tuple(s * Fraction(1, count) for s in real.slope)
    return Real(stream, shape, builder.image_where(shape), slope, real.offset)
