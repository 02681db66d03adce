"""When frames were computed, by a clock of 32 bits: beside each frame's results, for the host to compare."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["FrameTimes"]


class FrameTimes(Component):
    """The cycles in which a frame's first beat entered and its last beat left.

    Frames overlap, and one at a time is followed from its beginning: of the others, only the end is known.

    Ports:
        begins, ends: strobes, of the first beat in and of the last beat out.
        waits: a byte of results has no room yet.
        index, byte: of what is known of the frame that has ended: 0 says whether its beginning is (1), and whether
            results had to wait for room since this was told of the frame before (2); 1..4 are the cycle of the
            beginning, 5..8 that of the end, little-endian.
        told: it is not asked for any longer.
    """

    def __init__(self) -> None:
        strobes = {name: In(1) for name in ("begins", "ends", "waits", "told")}
        super().__init__({**strobes, "index": In(range(9)), "byte": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        now, began, ended = (Signal(32, name=name) for name in ("now", "began", "ended"))
        begun, done, followed = (Signal(8, name=name) for name in ("begun", "done", "followed"))  # numbers of frames
        follows, known, waited = Signal(), Signal(), Signal()
        m.d.sync += now.eq(now + 1)
        with m.If(self.begins):
            m.d.sync += begun.eq(begun + 1)
            with m.If(~follows):
                m.d.sync += [follows.eq(1), began.eq(now), followed.eq(begun)]
        with m.If(self.ends):
            m.d.sync += [done.eq(done + 1), ended.eq(now), known.eq(follows & (done == followed))]
        with m.If(self.told & known):
            m.d.sync += [known.eq(0), follows.eq(0)]
        with m.If(self.waits):
            m.d.sync += waited.eq(1)
        with m.Elif(self.told):
            m.d.sync += waited.eq(0)
        with m.Switch(self.index):
            for k, byte in enumerate((Cat(known, waited), *(Cat(began, ended).word_select(k, 8) for k in range(8)))):
                with m.Case(k):
                    m.d.comb += self.byte.eq(byte)
        return m
