"""``o[pixel] = flatten(i[rows and columns under the kernel])``: the input side of a convolution.

For every output pixel the window's ``kernel rows × kernel columns × channels`` elements leave in that order, cut into
beats of ``out_lanes`` anywhere; only the last beat of a pixel may be ragged. Several windows may lie side by side in a
beat. One beat per cycle; latency 6.
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Module

from onnx_hw_rtl.core import Core
from onnx_hw_rtl.engine import delayed
from onnx_hw_rtl.sliding import SlidingBuffer
from onnx_hw_rtl.stream import beat, bits_of
from onnx_hw_rtl.window_geometry import Geometry, PixelGroups, Place, side_by_side

__all__ = ["Window"]


class Window(Core):
    """Line buffer and reader.

    Args:
        geometry: image and kernel.
        bits, signed: of an element.
        in_lanes, out_lanes: channels per beat, those of the result being the elements of a window.
        in_pixels, out_pixels: pixels per beat, windows per beat.
        capacity: beats the buffer holds; at least those under one window's rows.
        pad_value: what elements outside the image read as.
        depth: FIFO depth of the output.
    """

    LATENCY = SlidingBuffer.LATENCY

    def __init__(
        self,
        geometry: Geometry,
        *,
        bits: int,
        signed: bool,
        in_lanes: int,
        out_lanes: int,
        in_pixels: int = 1,
        out_pixels: int = 1,
        capacity: int,
        pad_value: int = 0,
        depth: int,
    ) -> None:
        self.geometry, self.bits, self.capacity, self.pad_value = geometry, bits, capacity, pad_value
        self.in_lanes, self.out_lanes = in_lanes, out_lanes
        self.pixels = PixelGroups(geometry, in_lanes, in_pixels, out_pixels)
        super().__init__(
            {"i": beat(in_pixels * in_lanes, bits, signed)},
            {"o": (beat(out_pixels * out_lanes, bits, signed), depth)},
            ("writer", "reader"),
        )

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
            capacity=self.capacity,
            pad_value=self.pad_value,
            inner={"beat": -(-elements // self.out_lanes)},
            places=self._places,
            pushes_at=lambda turn: 1,
        )
        m.d.comb += [
            bits_of(outbox.data).eq(Cat(*buffer.beat)),
            outbox.write.eq(delayed(m, buffer.reader.fire, self.LATENCY, "write", strobe=True)),
        ]
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
