"""Convolutions whose weights or bias are computed from data."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, composed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.transposed_convolution import transposed_window

OF_THE_WINDOW = ("auto_pad", "dilations", "group", "output_padding", "output_shape", "pads", "strides")
"""Attributes of a ConvTranspose that say which elements a window writes."""


@composed("Conv", "ConvTranspose", meaning="", need=Need.ALWAYS)
def add_bias(composer: Composer, node: Node) -> str:
    """Compose a convolution whose bias is data: the sums, and an Add."""
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    composer.require(bool(bias) and composer.depends_on_data(bias) and composer.is_float(bias))
    result = composer.shape(node.outputs[0])
    sums = composer.add(node.op_type, *node.inputs[:2], version=node.version, **node.attributes)
    return composer.add("Add", sums, composer.reshaped(bias, (1, result[1], *(1,) * (len(result) - 2))))


@composed("ConvTranspose", meaning="", need=Need.ALWAYS)
def turn_kernel(composer: Composer, node: Node) -> str:
    """Compose a transposed convolution of two tensors: a convolution of the data with zeros between its elements.

    The kernel is turned round, and its inputs and outputs change places, group by group.
    """
    data, kernel = composer.real(node), node.inputs[1]
    composer.require(composer.is_float(kernel) and composer.depends_on_data(kernel))
    of_data, of_kernel, of_result = (composer.shape(name) for name in (data, kernel, node.outputs[0]))
    composer.require(of_data[0] == 1)
    given = {name: node.attributes[name] for name in OF_THE_WINDOW if name in node.attributes}
    window = transposed_window(of_data, of_kernel, **given)
    reach = [apart * (size - 1) for apart, size in zip(window.dilations, window.kernel, strict=True)]
    lengths = [out + more for out, more in zip(of_result[2:], reach, strict=True)]
    inner, sources = [], []
    for size, length, stride, more, pad in zip(of_data[2:], lengths, window.strides, reach, window.begin, strict=True):
        places = np.arange(size) * stride + more - pad
        kept = (places >= 0) & (places < length)
        inner.append(places[kept])
        sources.append(np.flatnonzero(kept))
    one, channels = np.zeros(1, dtype=np.int64), np.arange(of_data[1])
    origin = np.full((1, of_data[1], *lengths), -1)
    numbers = np.arange(prod(of_data)).reshape(of_data)
    origin[np.ix_(one, channels, *inner)] = numbers[np.ix_(one, channels, *sources)]
    group = int(node.attributes.get("group", 1))
    weights = np.arange(prod(of_kernel)).reshape(group, -1, *of_kernel[1:])
    turned = np.flip(weights, tuple(range(3, weights.ndim))).swapaxes(1, 2)
    operands = [
        composer.gathered([data], origin),
        composer.gathered([kernel], turned.reshape(of_result[1], -1, *window.kernel)),
    ]
    return composer.add("Conv", *operands, *node.inputs[2:], version=11, group=group, dilations=window.dilations)
