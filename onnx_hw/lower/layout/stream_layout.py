"""Orders in which the elements of an ONNX value follow each other on a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.onnx.graph.model import Value

MAX_MOVED_ELEMENTS = 1 << 22
"""Greatest number of elements of the result of a rearrangement: the compiler examines each of them many times."""


def elements_of(value: Value) -> int:
    """Return the number of elements of a value; unknown lengths count as 1, an unknown shape as 0 elements."""
    return 0 if value.shape is None else prod(length for length in value.shape if isinstance(length, int))


@dataclass
class StreamInput:
    """Tensor that the host streams in; its order is free until its first consumer requests one.

    Attributes:
        onnx_name, shape, dtype: name, shape and numpy dtype of the ONNX value with these integers.
        integer: type of the integers on the stream.
        order: stream position -> flat index in that value, or None while it is free.
        of: name of the ONNX value of real numbers that they stand for, if the model has only those; or empty.
    """

    onnx_name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    integer: Int
    order: np.ndarray | None = None
    of: str = ""


@dataclass(frozen=True)
class Layout:
    """Order of the elements of a value on a stream.

    Attributes:
        shape: (height, width, channels) of the stream.
        order: (size,) int64: stream position -> flat index in the value.
    """

    shape: tuple[int, int, int]
    order: np.ndarray = field(repr=False)

    @cached_property
    def where(self) -> np.ndarray:
        """(size,) int64: flat index in the value -> stream position."""
        where = np.empty_like(self.order)
        where[self.order] = np.arange(self.order.size)
        where.flags.writeable = False
        return where


@lru_cache(maxsize=8)
def image_layout(shape: tuple[int, ...]) -> Layout:
    """Return the layout of an image (1, channels, height, width) or (1, channels, width), pixel by pixel.

    The channels of a pixel are next to each other.
    """
    channels, space = shape[1], tuple(shape[2:])
    height, width = (1, *space) if len(space) == 1 else space
    order = np.arange(channels * height * width).reshape(channels, height * width).T.reshape(-1)
    order.flags.writeable = False  # the cache shares it
    return Layout((height, width, channels), order)


def layout_of_image(shape: tuple[int, ...]) -> Layout:
    """Return the layout of a value [1, channels, *space]; raise ``Obstacle`` for a value of another shape."""
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise Obstacle("rank", f"the data must be [1, channels, height, width], not {list(shape)}")
    return image_layout(shape)


def layout_of_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> Layout:
    """Return the layout with these axes, outermost first: the last becomes channels, the one before it the width."""
    size = int(np.prod(shape, dtype=np.int64))
    order = np.arange(size).reshape(shape).transpose(axes).reshape(-1)
    lengths = (1, 1, *(shape[axis] for axis in axes))
    height = int(np.prod(lengths[:-2], dtype=np.int64))
    return Layout((height, lengths[-2], lengths[-1]), order)


def default_layout(shape: tuple[int, ...]) -> Layout:
    """Return the layout of an image for a shape of an image, else the value's own order on one pixel."""
    if len(shape) in (3, 4) and shape[0] == 1:
        return image_layout(shape)
    size = int(np.prod(shape, dtype=np.int64))
    return Layout((1, 1, size), np.arange(size))


def axes_on_stream(positions: np.ndarray) -> tuple[int, ...]:
    """Return the axes of a value, from the one with the longest steps on a stream to the one with the shortest.

    Axes without two different elements come first. Where the steps allow it, the order is that of an image, (…, height,
    width, channels), or else the value's own.

    Args:
        positions: stream position that each element comes from, in the shape of the value; -1 for new elements.
    """
    rank = positions.ndim
    usual = (0, *range(2, rank), 1) if rank in (3, 4) and positions.shape[0] == 1 else tuple(range(rank))
    steps = [_step(positions, axis) for axis in range(rank)]
    sorted_by_step = sorted(usual, key=lambda axis: -steps[axis])
    long = [axis for axis in sorted_by_step if positions.shape[axis] > 1]
    return usual if long == [axis for axis in usual if positions.shape[axis] > 1] else tuple(sorted_by_step)


def _step(positions: np.ndarray, axis: int) -> int:
    """Return the greatest distance of neighbours along an axis on the stream.

    For an axis without two different elements it is greater than any distance.
    """
    before = positions.take(range(positions.shape[axis] - 1), axis)
    after = positions.take(range(1, positions.shape[axis]), axis)
    steps = np.abs(after - before)[(before >= 0) & (after >= 0)]
    return int(steps.max()) if steps.any() else int(positions.max()) + 1


def near_layout(positions: np.ndarray) -> Layout:
    """Return the layout that is nearest to the order on the stream that a value comes from; see ``axes_on_stream``."""
    return layout_of_axes(positions.shape, axes_on_stream(positions))
