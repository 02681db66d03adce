"""Layouts in which the elements along some axes of a value are the channels of one pixel."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.network_builder import NetworkBuilder, T
from onnx_hw.onnx.graph.model import Node


def groups_as_pixels(builder: NetworkBuilder, node: Node, value: T, axes: tuple[int, ...]) -> T:
    """Return a value on a stream each of whose pixels holds the elements along some axes, in any order.

    A value whose stream has such pixels already stays as it is.

    Args:
        axes: numbers of axes, ascending, none negative.
    """
    kept = tuple(axis for axis in range(len(value.shape)) if axis not in axes)
    size = prod(value.shape[axis] for axis in axes)
    tensor = builder.tensors.get(value.tensor)
    if tensor is not None and tensor.channels == size and builder.stream_order(value) is not None:
        pixels = builder.positions(value).reshape(value.shape).transpose((*kept, *axes)).reshape(-1, size) // size
        if (pixels == pixels[:, :1]).all():
            return value
    order = np.arange(value.where.size).reshape(value.shape).transpose((*kept, *axes)).reshape(-1)
    return builder.request_layout(value, Layout((1, order.size // size, size), order), node)
