"""Convolutions and poolings of volumes, (1, channels, depth, height, width), as those of images."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.onnx.canonicalize.compositions.composer import Composer, Need, composed
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.windows import SpatialWindow, sliding_window

WINDOW = ("auto_pad", "ceil_mode", "dilations", "pads", "strides")
"""Attributes of a window besides its size."""


@composed("Conv", meaning="", need=Need.ALWAYS)
def conv(composer: Composer, node: Node) -> str:
    """Compose a convolution of a volume.

    For each place along the depth, the slices under the kernel become channels; these images stand on top of each other
    in one. The rows of its result that mix two of them are dropped.
    """
    of_data, of_weights = _volume(composer, node), composer.shape(node.inputs[1])
    composer.require(len(of_weights) == 5)
    window = _window(composer, node, of_weights[2:])
    (step, *strides), (apart, *dilations) = window.strides, window.dilations
    depth, height, width = window.output
    rows = -(-_reach(window)[1] // strides[0])  # of a result for each place along the depth
    places = _places(of_data, window, (_reach(window)[0], rows * strides[0], _reach(window)[2]))
    along = np.arange(depth)[None] * step + np.arange(of_weights[2])[:, None] * apart
    stacked = places[:, along].reshape(1, of_data[1] * of_weights[2], -1, places.shape[-1])
    kernel = composer.reshaped(node.inputs[1], (of_weights[0], of_weights[1] * of_weights[2], *of_weights[3:]))
    operands = [composer.gathered([node.inputs[0]], stacked), kernel, *node.inputs[2:]]
    group = node.attributes.get("group", 1)
    image = composer.add("Conv", *operands, version=11, group=group, strides=tuple(strides), dilations=tuple(dilations))
    if rows > height:
        kept = (np.arange(depth)[:, None] * rows + np.arange(height)).reshape(-1)
        image = composer.add("Gather", image, composer.lengths(kept.tolist()), axis=2)
    return composer.reshaped(image, (1, of_weights[0], depth, height, width))


@composed("ConvTranspose", meaning="", need=Need.ALWAYS)
def conv_transpose(composer: Composer, node: Node) -> str:
    """Compose a transposed convolution of a volume: a convolution of the volume with zeros between its elements."""
    of_data, of_result = _volume(composer, node), composer.shape(node.outputs[0])
    weights = composer.added.constants.get(node.inputs[1])
    given = {
        name: tuple(node.attributes.get(name, (default,) * 3)) for name, default in (("strides", 1), ("dilations", 1))
    }
    begin = tuple(node.attributes.get("pads", (0,) * 6))[:3]
    composer.require(weights is not None and "output_shape" not in node.attributes)
    composer.require(str(node.attributes.get("auto_pad", "NOTSET")) == "NOTSET")
    assert weights is not None
    group, kernel = int(node.attributes.get("group", 1)), weights.shape[2:]
    reach = [apart * (size - 1) for apart, size in zip(given["dilations"], kernel, strict=True)]
    lengths = [out + more for out, more in zip(of_result[2:], reach, strict=True)]
    origin = np.full((1, of_data[1], *lengths), -1)
    inner, sources = [], []
    for size, length, stride, more, pad in zip(of_data[2:], lengths, given["strides"], reach, begin, strict=True):
        places = np.arange(size) * stride + more - pad
        kept = (places >= 0) & (places < length)
        inner.append(places[kept])
        sources.append(np.flatnonzero(kept))
    numbers = np.arange(prod(of_data)).reshape(of_data)
    one, channels = np.zeros(1, dtype=np.int64), np.arange(of_data[1])
    origin[np.ix_(one, channels, *inner)] = numbers[np.ix_(one, channels, *sources)]
    turned = weights.reshape(group, -1, *weights.shape[1:])[..., ::-1, ::-1, ::-1].swapaxes(1, 2)
    stored = composer.constant(turned.reshape(of_result[1], -1, *kernel))
    stuffed = composer.gathered([node.inputs[0]], origin)
    operands = [stuffed, stored, *node.inputs[2:]]
    return composer.add("Conv", *operands, version=11, group=group, dilations=given["dilations"], kernel_shape=kernel)


@composed("MaxPool", meaning="")
def max_pool(composer: Composer, node: Node) -> str:
    """Compose the maxima of a volume: those of its slices, then along the depth."""
    _, channels, depth, *size = _volume(composer, node)
    window = _window(composer, node, node.attributes["kernel_shape"])
    begin, end, ceil = window.begin, window.end, node.attributes.get("ceil_mode", 0)
    slices = composer.reshaped(node.inputs[0], (1, channels * depth, *size))
    plane = composer.add(
        "MaxPool", slices, version=12, kernel_shape=window.kernel[1:], strides=window.strides[1:],
        dilations=window.dilations[1:], pads=(*begin[1:], *end[1:]), ceil_mode=ceil,
    )  # fmt: skip
    columns = composer.reshaped(plane, (1, channels, depth, prod(window.output[1:])))
    along = composer.add(
        "MaxPool", columns, version=12, kernel_shape=(window.kernel[0], 1), strides=(window.strides[0], 1),
        dilations=(window.dilations[0], 1), pads=(begin[0], 0, end[0], 0), ceil_mode=ceil,
    )  # fmt: skip
    return composer.reshaped(along, (1, channels, *window.output))


@composed("AveragePool", meaning="", need=Need.ALWAYS)
def average_pool(composer: Composer, node: Node) -> str:
    """Compose the means of a volume: the rows under a window stand on top of each other in an image.

    A mean counts pads; where windows have fewer elements, a division of their sums for each place follows.
    """
    of_data = _volume(composer, node)
    window = _window(composer, node, node.attributes["kernel_shape"])
    includes = bool(node.attributes.get("count_include_pad", 0))
    counts = np.broadcast_to(window.counts(of_data[2:], include_pads=includes), window.output)
    places = _places(of_data, window, _reach(window))
    deep, high = (
        np.arange(out)[:, None] * stride + np.arange(size) * apart
        for out, stride, size, apart in list(
            zip(window.output, window.strides, window.kernel, window.dilations, strict=True)
        )[:2]
    )
    under = places[:, deep[:, None, :, None], high[None, :, None, :]]  # channels, places, kernel, width
    rows = prod(window.kernel[:2])
    image = composer.gathered([node.inputs[0]], under.reshape(1, of_data[1], -1, places.shape[-1]))
    means = composer.add("AveragePool", image, version=19, kernel_shape=(rows, window.kernel[2]),
                         strides=(rows, window.strides[2]), dilations=(1, window.dilations[2]))  # fmt: skip
    if (counts != prod(window.kernel)).any():
        sums = composer.add("Mul", means, composer.constant(float(prod(window.kernel))))
        means = composer.add("Div", sums, composer.constant(counts.reshape(1, 1, -1, counts.shape[2])))
    return composer.reshaped(means, (1, of_data[1], *window.output))


@composed("GlobalAveragePool", "GlobalMaxPool", meaning="", need=Need.ALWAYS)
def global_pool(composer: Composer, node: Node) -> str:
    """Compose the mean or the maximum of a volume: that of an image of all slices."""
    _, channels, depth, height, width = _volume(composer, node)
    image = composer.reshaped(node.inputs[0], (1, channels, depth * height, width))
    return composer.reshaped(composer.add(node.op_type, image), (1, channels, 1, 1, 1))


def _volume(composer: Composer, node: Node) -> tuple[int, ...]:
    """Return the shape of the data, which must be a volume of real numbers."""
    shape = composer.shape(composer.real(node))
    composer.require(len(shape) == 5 and shape[0] == 1)
    return shape


def _window(composer: Composer, node: Node, kernel: tuple[int, ...]) -> SpatialWindow:
    given = {name: node.attributes[name] for name in WINDOW if name in node.attributes}
    return sliding_window(composer.shape(node.inputs[0])[2:], kernel, **given)


def _reach(window: SpatialWindow) -> tuple[int, ...]:
    """Return the lengths of the padded volume that the windows cover."""
    parts = zip(window.output, window.strides, window.kernel, window.dilations, strict=True)
    return tuple((out - 1) * stride + (size - 1) * apart + 1 for out, stride, size, apart in parts)


def _places(of_data: tuple[int, ...], window: SpatialWindow, lengths: tuple[int, ...]) -> np.ndarray:
    """Return the flat index of each element of the padded volume, (channels, *lengths), or -1 for a pad."""
    channels, space = of_data[1], of_data[2:]
    whole = np.full((channels, *(max(b + n, to) for b, n, to in zip(window.begin, space, lengths, strict=True))), -1)
    inner = tuple(slice(first, first + length) for first, length in zip(window.begin, space, strict=True))
    whole[(slice(None), *inner)] = np.arange(prod(of_data)).reshape(of_data[1:])
    return whole[(slice(None), *(slice(length) for length in lengths))]
