"""Timestamps of frames by a clock of 32 bits. They are sent with each frame's results, for the host to compare."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.parts import lfsr_counter

__all__ = ["FrameTimestamps"]

_TIME_BYTES = 4
_NUMBER_BITS = 8


class FrameTimestamps(Component):
    """Times at which a frame's first beat entered and its last beat left, in cycles.

    Frames overlap, and only one at a time is followed from its beginning. Of all other frames only the end is known; so
    it is for a frame that ends within four cycles of its beginning.

    The clock counts in units of four cycles, one of its bytes in each cycle, through one short adder. So a time is the
    value of the clock as it passes by and the place within those four cycles, and is kept in a row of bytes without a
    multiplexer. The frame that is followed is recognized by equality alone: frames are numbered as an LFSR counts, with
    fewer than 255 frames inside at a time.

    Ports:
        begins, ends: strobes of the first beat in and of the last beat out, some cycles apart from the next one.
        waits: a byte of results has no room yet.
        byte: next byte of the record of the frame that has ended. The first byte says whether its beginning is known
            (1), and whether results had to wait for room since the record of the previous frame (2). Four bytes are the
            cycle of the beginning, four the cycle of the end, little-endian; the first of these eight is taken no
            sooner than seven cycles after the first byte.
        passes, last: that byte is taken, and is the last one.
    """

    def __init__(self) -> None:
        strobes = {name: In(1) for name in ("begins", "ends", "waits", "passes")}
        super().__init__({**strobes, "byte": Out(8), "last": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        clock, carry, place, lowest = Signal(8 * _TIME_BYTES), Signal(), Signal(range(_TIME_BYTES)), Signal()
        total = clock[:8] + Cat(carry & ~lowest, 0, lowest)
        m.d.sync += [
            Cat(clock, carry).eq(Cat(clock[8:], total)),
            place.eq(_following(place)),
            lowest.eq(place == _TIME_BYTES - 2),
        ]

        times, index = Signal(), Signal(range(2 * _TIME_BYTES))  # the first byte has passed; index of the byte after it
        first, second = times & ~index[-1], times & index[-1]
        told = Signal()
        m.d.comb += [self.last.eq(index.all()), told.eq(self.passes & self.last)]
        with m.If(self.passes):
            m.d.sync += [times.eq(~self.last), index.eq(Mux(times, _following(index), 0))]

        begun, done, followed = (Signal(_NUMBER_BITS, name=name) for name in ("begun", "done", "followed"))
        follows, known, waited = Signal(), Signal(), Signal()
        with m.If(self.begins):
            m.d.sync += begun.eq(lfsr_counter.next_state(begun))
            with m.If(~follows):
                m.d.sync += [follows.eq(1), followed.eq(begun)]
        began, begins = self._time_of(m, "began", self.begins & ~follows, clock[:8], place, lowest, first & known)
        ended, _ = self._time_of(m, "ended", self.ends, clock[:8], place, lowest, second)
        with m.If(self.ends):
            m.d.sync += [done.eq(lfsr_counter.next_state(done)), known.eq(follows & ~begins & (done == followed))]
        with m.If(told & known):
            m.d.sync += [known.eq(0), follows.eq(0)]
        with m.If(told):
            m.d.sync += waited.eq(0)
        with m.If(self.waits):
            m.d.sync += waited.eq(1)
        m.d.comb += self.byte.eq(Mux(times, Mux(index[-1], ended, began), Cat(known, waited)))
        return m

    def _time_of(
        self, m: Module, name: str, event: Value, clock: Value, place: Value, lowest: Value, asked: Value
    ) -> tuple[Value, Value]:
        """Return (next byte of the time of an event, whether its first byte has yet to come)."""
        row = Signal(8 * _TIME_BYTES, name=name)
        waits, comes, at = Signal(name=f"{name}_waits"), Signal(name=f"{name}_comes"), Signal(2, name=f"{name}_at")
        due, enters = waits | event, Signal(name=f"{name}_in")
        m.d.comb += enters.eq(Mux(lowest, due, comes))
        m.d.sync += waits.eq(due & ~lowest)
        with m.If(event):
            m.d.sync += at.eq(place)
        with m.If(lowest):
            m.d.sync += comes.eq(due)
        with m.If(enters | (self.passes & asked)):
            low = (at | event.replicate(2)) & lowest.replicate(2)  # the highest place is the one of the lowest byte
            m.d.sync += row.eq(Cat(row[8:], clock | low))
        return row[:8], waits


def _following(value: Value) -> Value:
    """Return the next number, in gates: a carry chain takes more than these few bits."""
    return Cat(bit ^ value[:k].all() for k, bit in enumerate(value))
