"""When frames were computed, by a clock of 32 bits: beside each frame's results, for the host to compare."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import Component, In, Out

__all__ = ["FrameTimes"]

_BYTES = 4  # of a time
_BEGAN, _ENDED = 1, 1 + _BYTES  # where they begin


class FrameTimes(Component):
    """The cycles in which a frame's first beat entered and its last beat left.

    Frames overlap, and one at a time is followed from its beginning: of the others, only the end is known, and of one
    that ends within four cycles of its beginning.

    The clock counts cycles by four, a byte of it in each, through one short adder; so a time is a clock that passes by
    and the place in those four cycles, and is kept in a row of bytes that nothing chooses between.

    Ports:
        begins, ends: strobes, of the first beat in and of the last beat out, some cycles apart from the next one.
        waits: a byte of results has no room yet.
        index, byte: of what is known of the frame that has ended: 0 says whether its beginning is (1), and whether
            results had to wait for room since this was told of the frame before (2); 1..4 are the cycle of the
            beginning, 5..8 that of the end, little-endian. They are asked for one after the other, the first of the
            end no sooner than seven cycles behind it.
        passes: that byte is taken.
    """

    def __init__(self) -> None:
        strobes = {name: In(1) for name in ("begins", "ends", "waits", "passes")}
        super().__init__({**strobes, "index": In(range(_ENDED + _BYTES)), "byte": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        clock, carry, place = Signal(8 * _BYTES), Signal(), Signal(range(_BYTES))
        lowest = place == _BYTES - 1
        total = clock[:8] + Cat(carry & ~lowest, 0, lowest)
        m.d.sync += [Cat(clock, carry).eq(Cat(clock[8:], total)), place.eq(place + 1)]

        begun, done, followed = (Signal(8, name=name) for name in ("begun", "done", "followed"))  # numbers of frames
        follows, known, waited = Signal(), Signal(), Signal()
        told = self.passes & (self.index == _ENDED + _BYTES - 1)
        with m.If(self.begins):
            m.d.sync += begun.eq(begun + 1)
            with m.If(~follows):
                m.d.sync += [follows.eq(1), followed.eq(begun)]
        first, last = Signal(), Signal()  # bytes of which time; by a switch, where synthesis subtracts for a comparison
        with m.Switch(self.index):
            with m.Case(*range(_BEGAN, _ENDED)):
                m.d.comb += first.eq(1)
            with m.Case(*range(_ENDED, _ENDED + _BYTES)):
                m.d.comb += last.eq(1)
        began, begins = self._kept(m, "began", self.begins & ~follows, clock[:8], place, first & known)
        ended, _ = self._kept(m, "ended", self.ends, clock[:8], place, last)
        with m.If(self.ends):
            m.d.sync += [done.eq(done + 1), known.eq(follows & ~begins & (done == followed))]
        with m.If(told & known):
            m.d.sync += [known.eq(0), follows.eq(0)]
        with m.If(self.waits):
            m.d.sync += waited.eq(1)
        with m.Elif(told):
            m.d.sync += waited.eq(0)
        m.d.comb += self.byte.eq(Mux(first, began, Mux(self.index == 0, Cat(known, waited), ended)))
        return m

    def _kept(
        self, m: Module, name: str, event: Value, clock: Value, place: Value, asked: Value
    ) -> tuple[Value, Value]:
        """(next byte of the time of an event, whether its first one has yet to come)."""
        row = Signal(8 * _BYTES, name=name)
        waits, comes, at = Signal(name=f"{name}_waits"), Signal(name=f"{name}_comes"), Signal(2, name=f"{name}_at")
        lowest, due, low, enters = place == _BYTES - 1, waits | event, Mux(event, place, at), Signal(name=f"{name}_in")
        m.d.comb += enters.eq(Mux(lowest, due, comes))
        m.d.sync += waits.eq(due & ~lowest)
        with m.If(event):
            m.d.sync += at.eq(place)
        with m.If(lowest):
            m.d.sync += comes.eq(due)
        with m.If(enters | (self.passes & asked)):
            m.d.sync += row.eq(Cat(row[8:], clock | Mux(lowest, low, 0)))
        return row[:8], waits
