"""Pools with a window: a maximum stays in the integers, an average is a sum whose divisor goes into the scale.

Where windows count different numbers of elements, each element has a scale of its own.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.lower.builder import Builder, Hardware, Obstacle, layout_of_image
from onnx_hw.lower.layout.stream_layout import image_layout
from onnx_hw.lower.ops.data_movement import pads_of_image
from onnx_hw.lower.ops.kernel import Kernel, kernel_of
from onnx_hw.lower.ops.per_element import times_per_element
from onnx_hw.lower.ops.reduce import carry_scale, postpone_extrema
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.ops.requantize import summed
from onnx_hw.lower.values import IntegerStream, Operand, Real, Surrounded
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.windows import sliding_window
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce
from onnx_hw.ops.tensor import Tensor


@lowers("MaxPool")
def maxpool_of(builder: Builder, node: Node) -> None:
    """without indices"""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Obstacle("maxpool-indices", "the indices of a MaxPool are not built: only its first output is")
    shape, result = builder.shape(node.outputs[0]), node.outputs[0]
    size = tuple(int(n) for n in node.attributes["kernel_shape"])
    value = builder.operand(node)
    height, width, _ = layout_of_image(value.shape).shape
    kernel = kernel_of(node, size, (height, width), shape[2:])
    value, kernel = _without_pads(builder, value, kernel)
    kernel.check_touches(Tensor(layout_of_image(value.shape).shape, Int(8)))

    def maxima(builder: Builder, value: Hardware) -> Hardware:
        value, tensor = builder.image(value, node)
        pool = pool_of(tensor, "max", kernel, tensor.dtype.min)
        stream = builder.add(node.label, pool, [value.tensor], node, output=result)
        carry_scale(builder, value.tensor, stream)
        return replace(value, tensor=stream, shape=shape, where=image_layout(shape).where)

    postpone_extrema(builder, node, value, maxima)


def _without_pads(
    builder: Builder, value: IntegerStream | Operand, kernel: Kernel
) -> tuple[IntegerStream | Operand, Kernel]:
    """What stands inside a Pad with a constant that no maximum notices, such as -inf, and the kernel that pads it."""
    if isinstance(value, Surrounded) and value.fill <= builder.least(value.value):
        pads = pads_of_image(value.origin, value.value.shape)
        height, width, _ = layout_of_image(value.value.shape).shape
        if pads is not None and kernel.padded(pads).always_touches(height, width):
            return value.value, kernel.padded(pads)
    return value, kernel


@lowers("AveragePool")
def averagepool_of(builder: Builder, node: Node) -> None:
    """a mean over each window, of whatever it counts"""
    shape = builder.shape(node.outputs[0])
    size = tuple(int(n) for n in node.attributes["kernel_shape"])
    height, width, _ = layout_of_image(builder.shape(node.inputs[0])).shape
    kernel = kernel_of(node, size, (height, width), shape[2:])
    padded = any(kernel.pads)
    real, tensor = builder.image(summed(builder, node, zeros=padded), node)
    kernel.check_touches(tensor)
    zero_point = real.zero_point if padded else 0
    if zero_point is None:
        raise Obstacle("not-quantized", f"the data `{node.inputs[0]}` must be quantized here")
    counts = _counts(node, builder.shape(node.inputs[0])[2:])
    if (counts == 0).any():
        raise Obstacle("window-outside", f"every window {list(size)} must hold something that counts")
    pool = pool_of(tensor, "sum", kernel, zero_point)
    stream = builder.add(node.label, pool, [real.tensor], node, output=node.outputs[0])
    taps = kernel.size[0] * kernel.size[1]
    slope = tuple(s * Fraction(1, taps) for s in real.slope)
    mean = Real(stream, shape, image_layout(shape).where, slope, real.offset, error=real.error)
    if (counts != taps).any():
        shares = np.array([Fraction(taps, int(count)) for count in counts.reshape(-1)], dtype=object)
        mean = times_per_element(builder, node, mean, shares.reshape(counts.shape))
    builder.values[node.outputs[0]] = mean


def _counts(node: Node, space: tuple[int, ...]) -> np.ndarray:
    """What each window divides by, in the shape of the result's space: pads count as zeros where it says so."""
    names = ("auto_pad", "ceil_mode", "dilations", "pads", "strides")
    how = {name: node.attributes[name] for name in names if name in node.attributes}
    window = sliding_window(space, node.attributes["kernel_shape"], **how)
    return window.counts(space, include_pads=bool(node.attributes.get("count_include_pad", 0)))


def pool_of(tensor: Tensor, kind: str, kernel: Kernel, pad_value: int) -> Operator:
    """A single window over the whole image is a reduction, which needs no line buffer."""
    if kernel.size == tensor.shape[:2] and not any(kernel.pads):
        return Reduce(tensor, kind)
    return Pool(tensor, kind, kernel.size, kernel.strides, kernel.pads, pad_value, kernel.dilations)
