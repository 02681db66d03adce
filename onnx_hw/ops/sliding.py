"""Arithmetic of windows that slide over an image, shared by the operators that contain one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.schedule import SharedBuffer
from onnx_hw.ops.stream_order import Order


@dataclass(frozen=True)
class Sliding:
    """Geometry of a kernel that slides over a (height, width, channels) image with (top, left, bottom, right) pads."""

    shape: tuple[int, int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns from the first to the last tap of the kernel."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))  # type: ignore[return-value]

    @property
    def output(self) -> tuple[int, int]:
        """(height, width) of the result: ``floor((size + pads - extent) / stride) + 1``."""
        height, width, _ = self.shape
        top, left, bottom, right = self.pads
        return (
            (height + top + bottom - self.extent[0]) // self.strides[0] + 1,
            (width + left + right - self.extent[1]) // self.strides[1] + 1,
        )

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    def check(self) -> None:
        """Raise ValueError unless some window touches a pixel: others need no image, hence would never wait for one."""
        for axis in (0, 1):
            windows = np.arange(max(0, self.output[axis])) * self.strides[axis] - self.pads[axis]
            taps = np.arange(self.kernel[axis]) * self.dilations[axis]
            reached = windows[:, None] + taps
            if not np.any((reached >= 0) & (reached < self.shape[axis])):
                raise ValueError(f"no window of {self} touches the image")

    def illegal(self, in_pixels: int, out_pixels: int) -> str:
        """Return why a beat cannot have these numbers of pixels, or an empty text.

        The places of a window's elements in the beats of the image must be the same wherever it lies.
        """
        step = self.strides[1]
        if out_pixels < self.output[1] and out_pixels * step % in_pixels:
            return f"in_pixels must divide out_pixels · {step}, the columns from a beat's windows to the next ones"
        return ""

    def side_by_side(self, image: Iterable[int], result: Iterable[int]) -> list[tuple[int, int]]:
        """Return the legal pixels in and out: of these, and more out where windows must step by whole beats."""
        step, most = self.strides[1], self.output[1]
        pairs = ((a, min(b * (a // gcd(a, b * step)), most)) for a, b in product(image, result))
        return list(dict.fromkeys(pairs))

    def grouped(self, image: Order, result: Order) -> Sliding:
        """Return how the windows of a beat of the result slide, as one, over the pixel groups of the image.

        It says in which group the first and the last pixel in their reach lie; where in it is no matter of time.
        """
        in_pixels, out_pixels = image.pixels, result.pixels
        if (in_pixels, out_pixels) == (1, 1):
            return self
        height, _, channels = self.shape
        top, left, bottom, _ = self.pads
        groups, columns, step = image.row_groups, result.row_groups, out_pixels * self.strides[1]
        reach = self.extent[1] + (out_pixels - 1) * self.strides[1]
        before = -(-left // in_pixels)
        kernel = before + (reach - 1 - left) // in_pixels + 1
        step = max(1, step // in_pixels)  # of no matter where all windows of a row lie side by side
        after = (columns - 1) * step + kernel - groups - before  # negative where a window never gets to the last ones
        return Sliding(
            (height, groups, channels),
            (self.kernel[0], kernel),
            (self.strides[0], step),
            (top, before, bottom, after),
            (self.dilations[0], 1),
        )

    def windows(self, image: np.ndarray, pad_value: int) -> np.ndarray:
        """View (frames, height, width, channels) as (frames, out height, out width, rows, columns, channels)."""
        top, left, bottom, right = self.pads
        padded = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=pad_value)
        views = np.lib.stride_tricks.sliding_window_view(padded, self.extent, axis=(1, 2))
        (sy, sx), (dy, dx) = self.strides, self.dilations
        views = views[:, ::sy, ::sx, :, ::dy, ::dx]
        return views.transpose(0, 1, 2, 4, 5, 3)

    def last_touched(self, axis: int) -> np.ndarray:
        """Return, per output row (column), the last image row (column) in reach of its windows, or -1."""
        k = np.arange(self.output[axis])
        reach = k * self.strides[axis] - self.pads[axis] + self.extent[axis] - 1
        return np.clip(reach, -1, self.shape[axis] - 1)

    def kept_from(self) -> np.ndarray:
        """Return, per output row, the first image row that later windows of the frame still touch."""
        rows = (np.arange(self.output[0]) + 1) * self.strides[0] - self.pads[0]
        kept = np.clip(rows, 0, self.shape[0])
        kept[-1] = self.shape[0]
        return kept

    def _rows_that_need(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the output rows whose windows touch a later image row than all before them, and that image row."""
        last = self.last_touched(0)
        rows = np.flatnonzero(np.diff(last, prepend=-1) > 0)
        return rows, last[rows]

    def _columns_that_need(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the same of columns, within a row."""
        last = self.last_touched(1)
        columns = np.flatnonzero(np.diff(last, prepend=-1) > 0)
        return columns, last[columns]

    def live_capacity(self, beats_per_pixel: int) -> int:
        """Return the least number of beats with which the reader never waits for one that has no room."""
        last, kept = self.last_touched(0), np.concatenate([[0], self.kept_from()[:-1]])
        rows = last >= 0
        held = (last - kept)[rows] * self.shape[1] + int(self.last_touched(1).max()) + 1
        return max(1, int(held.max()) * beats_per_pixel)

    def rate_capacity(self, beats_per_pixel: int) -> int:
        """Return the beats with which neither engine waits for long, the busier one or not; see ``_rate_capacity``."""
        return _rate_capacity(self, beats_per_pixel)

    def buffer(self, of_a_window: int, beats_per_pixel: int, capacity: int) -> SharedBuffer:
        """Return the shared buffer of a reader with a number of operations a window.

        It waits for the last beat its window can touch, and gives back whole rows, when the last window of an output
        row is done.
        """
        (y, down), (x, across) = self._rows_that_need(), self._columns_that_need()
        row, image_row = self.output[1] * of_a_window, self.shape[1] * beats_per_pixel
        x, across = x * of_a_window, (across + 1) * beats_per_pixel - 1
        if len(y) == 1:  # the columns are the rows
            waits, needs = (
                AffineSequence.rows(y[0] * row + x, [0]),
                AffineSequence.rows(down[0] * image_row + across, [0]),
            )
        else:
            waits, needs = AffineSequence.rows(y * row, x), AffineSequence.rows(down * image_row, across)
        given_back = np.diff(self.kept_from(), prepend=0)  # image rows, after each output row
        (ends,) = given_back.nonzero()
        releases = AffineSequence.repeated((ends + 1) * row - 1, given_back[ends] * image_row)
        return SharedBuffer("writer", "reader", capacity, waits, needs, releases)


@lru_cache(maxsize=4096)
def _rate_capacity(sliding: Sliding, beats_per_pixel: int) -> int:
    """Return the beats with which neither engine ever waits for long, whichever is the busier.

    The larger of two figures, rounded up to a power of two, which is what the memory is made of:

    * the rows of one output row's windows and those that the next one's add, so that bursts find room;
    * what lies between the engines when both go evenly through the frame. The reader begins window k of n after
      k/n of the frame, the writer is ahead by as much as the neediest window asks (``lead``), and nothing of the
      rows in use has been given back (``span``). Two beats make up for rounding to whole cycles.
    """
    row = sliding.shape[1] * beats_per_pixel
    frame = sliding.shape[0] * row
    needed = (sliding.last_touched(0) + 1) * row
    following = np.concatenate([needed[1:], [frame + max(needed[0], 0)]])
    kept = np.concatenate([[0], sliding.kept_from()[:-1]]) * row
    for_bursts = int(np.max(following - kept))

    rows, columns = sliding.output
    n = rows * columns
    (y, down), (x, across) = sliding._rows_that_need(), sliding._columns_that_need()
    by_rows = int(np.max(down * row * n - frame * columns * y))
    lead = max(0, by_rows + int(np.max((across + 1) * beats_per_pixel * n - frame * x)))
    span = np.max((np.arange(rows) + 1) * columns * frame - kept * n)
    evenly = -(-int(lead + span) // n) + 2

    return 1 << (max(for_bursts, evenly, 2) - 1).bit_length()
