"""``o[pixel, channel] = max``, ``min`` or ``sum`` of the elements under the kernel, channel by channel.

This is a sliding window that accumulates instead of emitting: for each output pixel and each chunk of ``out_lanes``
channels, one cycle per element of the kernel. Latency 7.
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from onnx_hw_rtl.cores.sliding import SlidingBuffer
from onnx_hw_rtl.cores.window_geometry import PixelGroups, Place, WindowGeometry, side_by_side
from onnx_hw_rtl.parts.fanout import copies
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.engine import delayed
from onnx_hw_rtl.streams.stream import StreamShape, groups_of


def fold_into(kind: str, first: Value, value: Signal, total: Signal) -> Mux:
    """Return the next value of an accumulator: ``value`` at first, then the larger, the smaller or the sum."""
    if kind != "sum":
        return Mux(first | (value > total if kind == "max" else value < total), value, total)
    return Mux(first, 0, total) + value


class Pool(Core):
    """Windowed maximum, minimum or sum.

    Args:
        kind: ``max``, ``min`` or ``sum``.
        geometry: image and kernel.
        i, o: the streams.
        capacity: beats that the buffer holds.
        pad_value: value of elements outside the image.
        depth: FIFO depth of the output.
    """

    LATENCY = SlidingBuffer.LATENCY + 1

    def __init__(
        self,
        kind: str,
        geometry: WindowGeometry,
        *,
        i: StreamShape,
        o: StreamShape,
        capacity: int,
        pad_value: int,
        depth: int,
    ) -> None:
        self.kind, self.geometry, self.capacity, self.pad_value = kind, geometry, capacity, pad_value
        self.element, self.result = i.element, o.element
        self.in_lanes, self.out_lanes = i.lanes, o.lanes
        self.pixels = PixelGroups(geometry, i.lanes, i.pixels, o.pixels)
        super().__init__({"i": i.payload}, {"o": (o.payload, depth)}, ("writer", "reader"))

    def elaborate(self, platform: object) -> Module:
        m = self.begin()
        outbox = self.outboxes["o"]
        taps = self.geometry.kernel[0] * self.geometry.kernel[1]
        buffer = SlidingBuffer(
            m,
            self.pixels,
            source=self.i,
            outbox=outbox,
            bits=self.element.width,
            out_lanes=self.out_lanes,
            uncut=self.out_lanes,
            capacity=self.capacity,
            pad_value=self.pad_value,
            constants=self.constants,
            inner={"chunk": groups_of(self.geometry.shape[2], self.out_lanes), "tap": taps},
            places=self._places,
            pushes_at=lambda turn: turn["tap"] == taps - 1,
        )
        reader = buffer.reader
        before = self.LATENCY - 2  # the stage before the accumulator's operands
        first = delayed(m, reader.decode(lambda turn: turn["tap"] == 0, 1, "first"), before, "first")
        there = delayed(m, reader.fire, before, "there", strobe=True)
        controls = copies(m, Cat(there, first), len(buffer.beat), "fold")
        for lane, (bits, control) in enumerate(zip(buffer.beat, controls, strict=True)):
            value = Signal(self.element, name=f"value{lane}")
            total = Signal(self.result, name=f"total{lane}", reset_less=True)
            m.d.comb += value.eq(bits)
            with m.If(control[0]):
                m.d.sync += total.eq(fold_into(self.kind, control[1], value, total))
            m.d.comb += outbox.data[lane].eq(total)
        self.arrives(m, "o", self.LATENCY)
        self.report(m, buffer.writer, reader)
        return m

    def _places(self, turn: Mapping[str, int]) -> list[Place]:
        row, column = divmod(turn["tap"], self.geometry.kernel[1])
        first = turn["chunk"] * self.out_lanes
        return side_by_side(
            self.pixels.place(window, row, column, c) if c < self.geometry.shape[2] else None
            for window in range(self.pixels.out_pixels)
            for c in range(first, first + self.out_lanes)
        )
