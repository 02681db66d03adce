"""The elements of a stream in another order: what commutes with that is said by every operator for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Permutation:
    """A tensor with the elements of another one in an order, and in a shape, of their own.

    Attributes:
        shape: (height, width, channels).
        source: (size,) int64, a permutation: per element, in NHWC order, its flat index in the other tensor.

    >>> turned = Permutation((1, 3, 2), np.array([0, 3, 1, 4, 2, 5]))
    >>> turned(np.array([[[[10, 11, 12], [20, 21, 22]]]])).tolist()
    [[[[10, 20], [11, 21], [12, 22]]]]
    """

    shape: tuple[int, int, int]
    source: np.ndarray = field(repr=False)

    def __call__(self, frames: np.ndarray) -> np.ndarray:
        """Reorder (frames, height, width, channels) of the other tensor into those of this one."""
        return frames.reshape(len(frames), -1)[:, self.source].reshape(len(frames), *self.shape)

    def alike(self, other: Permutation) -> bool:
        return self.shape == other.shape and np.array_equal(self.source, other.source)

    def changes(self, shape: tuple[int, int, int]) -> bool:
        """Return whether a tensor of this shape becomes another one."""
        return self.shape != shape or bool((np.diff(self.source) != 1).any())

    @cached_property
    def places(self) -> np.ndarray:
        """(size,) int64: flat index in the other tensor -> flat index in this one."""
        places = np.empty_like(self.source)
        places[self.source] = np.arange(self.source.size)
        return places

    def channels(self, kinds: np.ndarray) -> np.ndarray | None:
        """Return for each channel an old one of its kind, (channels,) int64; None where elements of several kinds meet
        in one.

        Args:
            kinds: (old channels,) int: what is the same for two channels has the same number.
        """
        old = (self.source % len(kinds)).reshape(-1, self.shape[2])
        return old[0] if (kinds[old] == kinds[old[0]]).all() else None

    def pixels(self, channels: int) -> np.ndarray | None:
        """Return the old pixel of each, (pixels,) int64; None where the elements of a pixel do not stay together.

        Args:
            channels: of the other tensor.
        """
        old = (self.source // channels).reshape(-1, self.shape[2])
        return old[:, 0] if self.shape[2] == channels and (old == old[:, :1]).all() else None


def of_pixels(shape: tuple[int, int], pixels: np.ndarray, channels: np.ndarray) -> Permutation:
    """Return the permutation that reorders whole pixels, (height, width), and their channels, by their old numbers."""
    return Permutation((*shape, len(channels)), (pixels[:, None] * len(channels) + channels).reshape(-1))


def of_channels(shape: tuple[int, int, int], channels: np.ndarray) -> Permutation:
    """Return the permutation that gives the same image with its channels in another order."""
    return of_pixels(shape[:2], np.arange(shape[0] * shape[1]), channels)


def only_channels(order: Permutation, shape: tuple[int, int, int]) -> np.ndarray | None:
    """Return the old channel of each, (channels,) int64; None where anything else of an image of this shape changes."""
    pixels, channels = order.pixels(shape[2]), order.channels(np.arange(shape[2]))
    if order.shape != shape or pixels is None or (np.diff(pixels) != 1).any():
        return None
    return channels


def stays_in_parts(pixels: np.ndarray, parts: int) -> bool:
    """Return whether each of a number of parts of equal length keeps its own pixels."""
    part = np.arange(pixels.size) // (pixels.size // parts)
    return bool((pixels // (pixels.size // parts) == part).all())
