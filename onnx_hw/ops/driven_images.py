"""Test vectors of cores that have no constants: images that drive their results to both ends, lane by lane.

A core whose result depends on one pixel alone (``vectors_of_pixels``) gets pixels that each of its channels decides:
one channel at an end of the range and the others at the other one, one above its equals by 1, and drawn ones. A core of
windows, of a frame or of two tensors (``vectors_of_images``) gets the constant frames that make its least and its
greatest result, and two that are drawn, of ends and of anything: no two lanes hold the same there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Protocol

import numpy as np

from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import FRAMES, TestVectors, at_most

SEED = 20
MAX_HOT_CHANNELS = 256
"""Channels that are singled out at most; of more, some are, evenly chosen."""
DRAWN_ENDS, DRAWN = 24, 1000
"""Numbers of drawn pixels, of ends and of anything; a thousand reach the ties of a rounding."""


class _OfImages(Protocol):
    def operands(self) -> tuple[Tensor, ...]: ...
    def results(self) -> tuple[Tensor, ...]: ...
    def golden(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]: ...


def vectors_of_pixels(operator: Any, folding: Any, more: np.ndarray | None = None) -> TestVectors:
    """Return test vectors of a core whose result for a pixel depends on that pixel alone; its field is ``operand``.

    Args:
        more: pixels of the core's own, (pixels, channels).
    """
    (low, high), channels = operator.operand.range, operator.operand.channels
    generator = np.random.Generator(np.random.PCG64(SEED))
    hot = at_most(MAX_HOT_CHANNELS, np.arange(channels))
    rows = [np.full((1, channels), end) for end in (low, high)]
    for level, other in ((low, high), (high, low), (low, min(high, low + 1)), (high - 1, high)):
        single = np.full((len(hot), channels), max(level, low))
        single[np.arange(len(hot)), hot] = other
        rows.append(single)
    rows.append(np.where(generator.integers(0, 2, (DRAWN_ENDS, channels)), low, high))
    rows.append(generator.integers(low, high + 1, (DRAWN, channels)))
    rows += [] if more is None else [more]
    vectors = np.concatenate(rows)
    pixels = -(-len(vectors) // FRAMES)
    frames = np.resize(vectors, (FRAMES, 1, pixels, channels)).astype(np.int64)
    wide = replace(operator, operand=replace(operator.operand, shape=(1, pixels, channels)))
    return _counted(TestVectors(None if wide.illegal(folding) else wide, (frames,)), wide, (frames,))


def vectors_of_images(operator: _OfImages, lanes: int = 0) -> TestVectors:
    """Return test vectors of a core in its own image; its result rises or falls with every element all over the range.

    Args:
        lanes: products per cycle.
    """
    generator = np.random.Generator(np.random.PCG64(SEED))
    operands = operator.operands()
    corners = [_constant(operands, ends) for ends in product(*(operand.range for operand in operands))]
    results = [operator.golden(*corner)[0] for corner in corners]
    least = min(range(len(corners)), key=lambda k: int(results[k].min()))
    greatest = max(range(len(corners)), key=lambda k: int(results[k].max()))
    shapes = [(FRAMES, *operand.shape) for operand in operands]
    frames = [np.empty(shape, dtype=np.int64) for shape in shapes]
    for array, operand, at_least, at_most_ in zip(frames, operands, corners[least], corners[greatest], strict=True):
        low, high = operand.range
        array[0], array[1] = at_least[0], at_most_[0]
        array[2] = np.where(generator.integers(0, 2, operand.shape), low, high)
        array[3] = generator.integers(low, high + 1, operand.shape)
    return _counted(TestVectors(operator, tuple(frames), lanes=lanes), operator, frames)


def _constant(operands: Sequence[Tensor], ends: Sequence[int]) -> list[np.ndarray]:
    return [np.full((1, *operand.shape), end, dtype=np.int64) for operand, end in zip(operands, ends, strict=True)]


def _counted(vectors: TestVectors, operator: _OfImages, frames: Sequence[np.ndarray]) -> TestVectors:
    """Return vectors with the ends that each channel of the result reaches, of those that any of them reaches."""
    (results,) = operator.golden(*frames)
    channels = results.shape[-1]
    ends = sum(int((results == end).any(axis=(0, 1, 2)).sum()) for end in (results.min(), results.max()))
    return replace(vectors, ends=ends, of_ends=2 * channels)
