"""``o[pixel] = flatten(i[rows and columns under the kernel])``: the input side of a convolution.

For every output pixel the window's ``kernel rows × kernel columns × channels`` elements leave in that order, cut into
beats of ``out_lanes`` anywhere; only the last beat of a pixel may be ragged. Several windows may lie side by side in a
beat. One beat per cycle; latency 6.
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Module

from onnx_hw_rtl.cores.sliding import SlidingBuffer
from onnx_hw_rtl.cores.window_geometry import PixelGroups, Place, WindowGeometry, side_by_side
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.stream import StreamShape, bits_of, groups_of


class Window(Core):
    """Line buffer and reader of a convolution.

    Args:
        geometry: image and kernel.
        i, o: the streams: pixels of the image; windows side by side, whose elements are their channels.
        capacity: beats that the buffer holds; at least those under one window's rows.
        pad_value: value of elements outside the image.
        depth: FIFO depth of the output.
    """

    LATENCY = SlidingBuffer.LATENCY

    def __init__(
        self,
        geometry: WindowGeometry,
        *,
        i: StreamShape,
        o: StreamShape,
        capacity: int,
        pad_value: int = 0,
        depth: int,
    ) -> None:
        self.geometry, self.bits, self.capacity, self.pad_value = geometry, i.bits, capacity, pad_value
        self.in_lanes, self.out_lanes = i.lanes, o.lanes
        self.pixels = PixelGroups(geometry, i.lanes, i.pixels, o.pixels)
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("writer", "reader"))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        rows, columns = self.geometry.kernel
        elements = rows * columns * self.geometry.shape[2]
        buffer = SlidingBuffer(
            m,
            self.pixels,
            source=self.i,
            outbox=outbox,
            bits=self.bits,
            out_lanes=self.out_lanes,
            uncut=self.out_lanes,
            capacity=self.capacity,
            pad_value=self.pad_value,
            constants=self.constants,
            inner={"beat": groups_of(elements, self.out_lanes)},
            places=self._places,
            pushes_at=lambda turn: 1,
        )
        m.d.comb += bits_of(outbox.data).eq(Cat(*buffer.beat))
        self.arrives(m, "o", self.LATENCY)
        self.report(m, buffer.writer, buffer.reader)
        return m

    def _places(self, turn: Mapping[str, int]) -> list[Place]:
        rows, columns = self.geometry.kernel
        channels = self.geometry.shape[2]
        first = turn["beat"] * self.out_lanes
        elements = range(first, first + self.out_lanes)
        return side_by_side(
            self.pixels.place(window, e // (columns * channels), e // channels % columns, e % channels)
            if e < rows * columns * channels
            else None
            for window in range(self.pixels.out_pixels)
            for e in elements
        )
