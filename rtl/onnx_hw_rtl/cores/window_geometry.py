"""Geometry of a window in its image: sizes, and the places of the elements it fetches if several pixels come side by
side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from onnx_hw_rtl.streams.stream import groups_of

Place = tuple[int, int, int, int]
"""Place of an element in a window: (row of the kernel, column of the kernel, channel, column within its reach that must
lie inside the image). If pixels come one by one, the last is the column of the kernel, too.
"""


@dataclass(frozen=True)
class WindowGeometry:
    """Image over which a kernel slides, and its steps.

    Attributes:
        shape: (height, width, channels) of the image.
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
        """Rows and columns from the first to the last element of the kernel."""
        return (
            (self.kernel[0] - 1) * self.dilations[0] + 1,
            (self.kernel[1] - 1) * self.dilations[1] + 1,
        )

    @property
    def output(self) -> tuple[int, int]:
        """Size of the result, (height, width)."""
        top, left, bottom, right = self.pads
        rows, columns = self.extent
        return (
            (self.shape[0] + top + bottom - rows) // self.strides[0] + 1,
            (self.shape[1] + left + right - columns) // self.strides[1] + 1,
        )


@dataclass(frozen=True)
class PixelGroups:
    """Windows side by side as one wide window, over an image whose pixels come side by side as one wide pixel.

    A wide pixel's channels are its beats one after the other. The steps of the windows, all together, are a multiple of
    ``in_pixels``, or all windows of a row lie side by side: so an element lies at the same place of a wide pixel in
    every wide window. The last wide pixel of a row may be ragged: whether an element lies inside the image is tested
    for its own column.

    Attributes:
        geometry: of the single windows and pixels.
        in_lanes: channels per beat of the image.
        in_pixels, out_pixels: pixels per beat of the image, windows per beat of the result.
    """

    geometry: WindowGeometry
    in_lanes: int
    in_pixels: int
    out_pixels: int

    def _columns(self) -> list[int]:
        """Return the column of each window's elements, from the first image column of a row's first window on."""
        steps, taps = self.geometry.strides[1], range(self.geometry.kernel[1])
        at = [p * steps + tap * self.geometry.dilations[1] for p in range(self.out_pixels) for tap in taps]
        return [column - self.geometry.pads[1] for column in at]

    @property
    def wide(self) -> WindowGeometry:
        """Geometry of the wide window over wide pixels; these count as one each."""
        one = self.geometry
        if self.in_pixels == self.out_pixels == 1:
            return one
        reached = [column // self.in_pixels for column in self._columns()]
        first, columns = min(reached), max(reached) - min(reached) + 1
        step = max(1, self.out_pixels * one.strides[1] // self.in_pixels)
        width, turns = groups_of(one.shape[1], self.in_pixels), groups_of(one.output[1], self.out_pixels)
        channels = groups_of(one.shape[2], self.in_lanes) * self.in_lanes * self.in_pixels
        return WindowGeometry(
            (one.shape[0], width, channels),
            (one.kernel[0], columns),
            (one.strides[0], step),
            (one.pads[0], -first, one.pads[2], (turns - 1) * step + columns - width + first),
            (one.dilations[0], 1),
        )

    def place(self, window: int, row: int, column: int, channel: int) -> Place:
        """Return the place in the wide window of an element of one of its windows."""
        if self.in_pixels == self.out_pixels == 1:
            return row, column, channel, column
        columns = self._columns()
        at, first = columns[window * self.geometry.kernel[1] + column], min(columns)
        group, pixel = divmod(at, self.in_pixels)
        beat, lane = divmod(channel, self.in_lanes)
        wide_channel = (beat * self.in_pixels + pixel) * self.in_lanes + lane
        return row, group - first // self.in_pixels, wide_channel, at - first

    @property
    def reach(self) -> WindowGeometry:
        """Geometry of the columns that a wide window reaches, ``dilations`` apart, pixel by pixel."""
        one = self.geometry
        if self.in_pixels == self.out_pixels == 1:
            return one
        columns = self._columns()
        turns, step = groups_of(one.output[1], self.out_pixels), self.out_pixels * one.strides[1]
        reached = max(columns) - min(columns) + 1
        after = (turns - 1) * step + reached - one.shape[1] + min(columns)
        return replace(
            one,
            kernel=(one.kernel[0], reached),
            strides=(one.strides[0], step),
            pads=(one.pads[0], -min(columns), one.pads[2], after),
            dilations=(one.dilations[0], 1),
        )


def side_by_side(places: Iterable[Place | None]) -> list[Place]:
    """Return the places of a beat: any place for an unused lane between others, no entry for those at the end."""
    lanes = list(places)
    while lanes and lanes[-1] is None:
        lanes.pop()
    return [place or (0, 0, 0, 0) for place in lanes]
