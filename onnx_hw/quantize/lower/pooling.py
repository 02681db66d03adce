"""Pools with a window: a maximum stays in the integers, an average is a sum whose divisor goes into the scale."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from onnx_hw.onnx.model import Node
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.quantize.builder import Builder, Obstacle
from onnx_hw.quantize.lower.registry import Effect, lowers
from onnx_hw.quantize.lower.windows import Kernel, kernel_of
from onnx_hw.quantize.stream_layout import image_layout
from onnx_hw.quantize.values import Real
from onnx_hw.tensor import Tensor


@lowers("MaxPool", effect=Effect.KEEPS)
def max_pool(builder: Builder, node: Node) -> None:
    """without indices"""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Obstacle("maxpool-indices", "the indices of a MaxPool are not built: only its first output is")
    value, tensor = builder.image(builder.rising(node), node)
    shape = builder.shape(node.outputs[0])
    size = tuple(int(n) for n in node.attributes["kernel_shape"])
    kernel = kernel_of(node, size, tensor.shape[:2], shape[2:])
    kernel.check_touches(tensor)
    pool = _pool(tensor, "max", kernel, tensor.dtype.min)
    stream = builder.add(node.label, pool, [value.tensor], node, output=node.outputs[0])
    _carry_scale(builder, value.tensor, stream)
    builder.values[node.outputs[0]] = replace(value, tensor=stream, shape=shape, where=image_layout(shape).where)


@lowers("AveragePool", effect=Effect.SUMS)
def average_pool(builder: Builder, node: Node) -> None:
    """pads only with count_include_pad = 1"""
    real = builder.real(node)
    if real.clipped:
        raise Obstacle("after-clip", "between a Relu or Clip and an average there must be a QuantizeLinear")
    real, tensor = builder.image(real, node)
    shape = builder.shape(node.outputs[0])
    size = tuple(int(n) for n in node.attributes["kernel_shape"])
    kernel = kernel_of(node, size, tensor.shape[:2], shape[2:])
    kernel.check_touches(tensor)
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
    builder.values[node.outputs[0]] = _mean(real, stream, shape, taps)


def _pool(tensor: Tensor, kind: str, kernel: Kernel, pad_value: int) -> Operator:
    """A single window over the whole image is a reduction, which needs no line buffer."""
    if kernel.size == tensor.shape[:2] and not any(kernel.pads):
        return Reduce(tensor, kind)
    return Pool(tensor, kind, kernel.size, kernel.strides, kernel.pads, pad_value, kernel.dilations)


def _carry_scale(builder: Builder, source: str, result: str) -> None:
    if source in builder.quantization:
        builder.quantization[result] = builder.quantization[source]


def _mean(real: Real, stream: str, shape: tuple[int, ...], count: int) -> Real:
    """The mean of ``slope·x + offset`` is ``(slope / count)·Σx + offset``."""
    slope = tuple(s * Fraction(1, count) for s in real.slope)
    return Real(stream, shape, image_layout(shape).where, slope, real.offset)
