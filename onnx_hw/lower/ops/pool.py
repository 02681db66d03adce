"""Pools with a window: a maximum of integers, or a sum whose divisor becomes part of the scale.

Where windows count different numbers of elements, every element has its own scale.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.kernel import Kernel, kernel_of, pool_of
from onnx_hw.lower.layout.stream_layout import image_layout, layout_of_image
from onnx_hw.lower.network_builder import LoweredValue, NetworkBuilder, StreamValue
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.per_element import times_per_element
from onnx_hw.lower.ops.reduce import postpone_extrema
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.real import Real, summed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.windows import sliding_window
from onnx_hw.ops.tensor import Tensor


@lowers("MaxPool")
def maxpool_of(builder: Builder, node: Node) -> None:
    """Accept a node without the second output, the indices."""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Obstacle("maxpool-indices", "a MaxPool must have one output: its second, the indices, has no hardware")
    shape, result = builder.shape(node.outputs[0]), node.outputs[0]
    size = tuple(int(n) for n in node.attributes["kernel_shape"])
    value = builder.operand(node)
    height, width, _ = layout_of_image(value.shape).shape
    kernel = kernel_of(node, size, (height, width), shape[2:])
    value, kernel = _without_pads(builder, value, kernel)
    kernel.check_touches(Tensor(layout_of_image(value.shape).shape, Int(8)))

    def maxima(builder: NetworkBuilder, value: StreamValue) -> StreamValue:
        value, tensor = builder.image(value, node)
        pool = pool_of(tensor, "max", kernel, tensor.dtype.min)
        stream = builder.add(node.label, pool, [value.tensor], node, output=result)
        builder.carry_grid(value.tensor, stream)
        return replace(value, tensor=stream, shape=shape, where=image_layout(shape).where)

    postpone_extrema(builder, node, value, maxima)


def _without_pads(builder: Builder, value: LoweredValue, kernel: Kernel) -> tuple[LoweredValue, Kernel]:
    """Return the data of a Pad whose constant changes no maximum, and the kernel that pads them.

    Without such a Pad, return the value and the kernel unchanged.
    """
    inside = value.without_pads(builder)
    if inside is not None:
        image, pads = inside
        height, width, _ = layout_of_image(image.shape).shape
        if kernel.padded(pads).always_touches(height, width):
            return image, kernel.padded(pads)
    return value, kernel


@lowers("AveragePool")
def averagepool_of(builder: Builder, node: Node) -> None:
    """Compute the mean of the elements that each window counts."""
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
        raise Obstacle(
            "window-outside", f"every window {list(size)} of an AveragePool must hold an element that counts"
        )
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
    """Return the divisor of every window, in the shape of the result's space; pads count where the node says so.

    Args:
        space: height and width of the data, or its length.
    """
    names = ("auto_pad", "ceil_mode", "dilations", "pads", "strides")
    attributes = {name: node.attributes[name] for name in names if name in node.attributes}
    window = sliding_window(space, node.attributes["kernel_shape"], **attributes)
    return window.counts(space, include_pads=bool(node.attributes.get("count_include_pad", 0)))
