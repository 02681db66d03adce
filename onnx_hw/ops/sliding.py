"""Arithmetic of windows that slide over an image, shared by the operators that contain one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_hw.ops.schedule import Loops, SharedBuffer


@dataclass(frozen=True)
class Sliding:
    """Where a kernel slides over a (height, width, channels) image.

    Attributes:
        kernel, strides, dilations: (rows, columns).
        pads: (top, left, bottom, right).
    """

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
        """Why so many pixels a beat cannot be, or an empty text.

        The places of a window's elements in the beats of the image must be the same wherever it lies.
        """
        width, step = self.shape[1], self.strides[1]
        if width % in_pixels:
            return f"in_pixels must divide {width}, the columns of the image"
        if out_pixels * step % in_pixels:
            return f"in_pixels must divide out_pixels · {step}, the columns from a beat's windows to the next ones"
        return ""

    def grouped(self, in_pixels: int, out_pixels: int) -> Sliding:
        """How ``out_pixels`` windows side by side slide, as one, over the groups of ``in_pixels`` of the image.

        It says in which group the first and the last pixel in their reach lie; where in it is no matter of time.
        """
        if (in_pixels, out_pixels) == (1, 1):
            return self
        height, width, channels = self.shape
        top, left, bottom, _ = self.pads
        groups, columns, step = width // in_pixels, -(-self.output[1] // out_pixels), out_pixels * self.strides[1]
        reach = self.extent[1] + (out_pixels - 1) * self.strides[1]
        before = -(-left // in_pixels)
        kernel = before + (reach - 1 - left) // in_pixels + 1
        step //= in_pixels
        after = (columns - 1) * step + kernel - groups - before  # negative where a window never gets to the last ones
        return Sliding(
            (height, groups, channels),
            (self.kernel[0], kernel),
            (self.strides[0], step),
            (top, before, bottom, after),
            (self.dilations[0], 1),
        )

    def windows(self, image: np.ndarray, pad_value: int) -> np.ndarray:
        """(frames, height, width, channels) to a view (frames, out height, out width, rows, columns, channels)."""
        top, left, bottom, right = self.pads
        padded = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=pad_value)
        views = np.lib.stride_tricks.sliding_window_view(padded, self.extent, axis=(1, 2))
        (sy, sx), (dy, dx) = self.strides, self.dilations
        views = views[:, ::sy, ::sx, :, ::dy, ::dx]
        return views.transpose(0, 1, 2, 4, 5, 3)

    def last_touched(self, axis: int) -> np.ndarray:
        """Per output row (column), the last image row (column) in reach of its windows, -1 if none."""
        k = np.arange(self.output[axis])
        reach = k * self.strides[axis] - self.pads[axis] + self.extent[axis] - 1
        return np.clip(reach, -1, self.shape[axis] - 1)

    def needs(self, nest: Loops, beats_per_pixel: int) -> np.ndarray:
        """The beat each reader operation waits for: the last one its window can touch, or -1."""
        y, x = self.last_touched(0)[nest.row], self.last_touched(1)[nest.column]
        last = (y * self.shape[1] + x + 1) * beats_per_pixel - 1
        return np.where((y < 0) | (x < 0), -1, last)

    def kept_from(self) -> np.ndarray:
        """Per output row, the first image row that later windows of the frame still touch."""
        rows = (np.arange(self.output[0]) + 1) * self.strides[0] - self.pads[0]
        kept = np.clip(rows, 0, self.shape[0])
        kept[-1] = self.shape[0]
        return kept

    def released(self, nest: Loops, inner: tuple[str, ...], beats_per_pixel: int) -> np.ndarray:
        """Beats given back once each operation has fired: whole rows, when the last window of an output row is done."""
        kept = np.concatenate([[0], self.kept_from()]) * self.shape[1] * beats_per_pixel
        return kept[nest.row + nest.last("column", *inner)]

    def live_capacity(self, beats_per_pixel: int) -> int:
        """The least number of beats with which the reader never waits for one that has no room."""
        nest = Loops(row=self.output[0], column=self.output[1])
        kept = np.concatenate([[0], self.kept_from()[:-1]]) * self.shape[1] * beats_per_pixel
        return max(1, int(np.max(self.needs(nest, beats_per_pixel) + 1 - kept[nest.row])))

    def rate_capacity(self, beats_per_pixel: int) -> int:
        """Beats with which neither engine ever waits for long, whichever is the busier.

        The larger of two figures, rounded up to a power of two, which is what the memory is made of:

        * the rows of one output row's windows and those that the next one's add, so that bursts find room;
        * what lies between the engines when both go evenly through the frame. The reader begins window k of n after
          k/n of the frame, the writer is ahead by as much as the neediest window asks (``lead``), and nothing of the
          rows in use has been given back (``span``). Two beats make up for rounding to whole cycles.
        """
        row = self.shape[1] * beats_per_pixel
        frame = self.shape[0] * row
        needed = (self.last_touched(0) + 1) * row
        following = np.concatenate([needed[1:], [frame + max(needed[0], 0)]])
        kept = np.concatenate([[0], self.kept_from()[:-1]]) * row
        for_bursts = int(np.max(following - kept))

        rows, columns = self.output
        n = rows * columns
        needs = self.needs(Loops(row=rows, column=columns), beats_per_pixel) + 1
        lead = np.max(np.where(needs > 0, needs * n - frame * np.arange(n), 0))
        span = np.max((np.arange(rows) + 1) * columns * frame - kept * n)
        evenly = -(-int(lead + span) // n) + 2

        return 1 << (max(for_bursts, evenly, 2) - 1).bit_length()

    def buffer(self, nest: Loops, inner: tuple[str, ...], beats_per_pixel: int, capacity: int) -> SharedBuffer:
        return SharedBuffer(
            "writer",
            "reader",
            capacity,
            self.needs(nest, beats_per_pixel),
            self.released(nest, inner, beats_per_pixel),
        )


def ring_blocks(width: int, depth: int, copies: int) -> int:
    """Block RAMs of 18 kbit for ``copies`` memories; small ones are distributed memory."""
    if depth * width <= 16 * 64 or depth <= 32:
        return 0
    shapes = ((512, 36), (1024, 18), (2048, 9), (4096, 4), (8192, 2), (16384, 1))
    return copies * min(-(-depth // d) * -(-width // w) for d, w in shapes)
