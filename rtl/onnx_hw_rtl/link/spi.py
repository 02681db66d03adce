"""A target of a serial peripheral interface, mode 0: bytes both ways at once, by the controller's clock."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockDomain, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import Component, In, Out

__all__ = ["LEAST_CLOCK", "SpiTarget"]

LEAST_CLOCK = 5 / 8
"""Of the domain ``sync``, in clocks of the controller: five cycles within a byte."""


class SpiTarget(Component):
    """Bytes of packets, which end with a zero; where there is none to send, zeros.

    Bits are taken at the rising edge of ``sck`` and put out at its falling edge, the highest first, by flip-flops that
    this very clock drives: nothing is sampled by a faster one. A byte crosses to the domain ``sync`` and back whole, in
    a register that rests while a flip-flop that changes beside it passes two others. That takes up to five cycles of
    ``sync``, and has the eight of ``sck`` that a byte takes.

    A byte that ``cs_n`` interrupts is no byte for the chip; the next one begins at its first bit. Any number of bytes
    may pass while ``cs_n`` is low.

    Ports:
        sck, cs_n, copi: of the controller.
        cipo: for it; whoever owns the pad drives it while ``cs_n`` is low.
        byte, strobe: a byte has come, for one cycle.
        i: bytes for the controller, no cycle of rest between those of a packet longer than three of ``sync``.
        waiting: a byte of a packet has not passed yet: the controller may clock until this is low.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                **{name: In(1) for name in ("sck", "copi")},
                "cs_n": In(1, init=1),
                "cipo": Out(1),
                "byte": Out(8),
                "strobe": Out(1),
                "i": In(stream.Signature(8)),
                "waiting": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rise = ClockDomain("rise", reset_less=True, local=True)
        fall = ClockDomain("fall", reset_less=True, local=True, clk_edge="neg")
        chosen = ClockDomain("chosen", async_reset=True, local=True)
        m.domains += [rise, fall, chosen]
        m.d.comb += [clock.clk.eq(self.sck) for clock in (rise, fall, chosen)]
        m.d.comb += chosen.rst.eq(self.cs_n)

        # By the controller's clock.
        count = Signal(3)  # bits of the byte
        begun = Signal(7)
        come, arrived = Signal(8), Signal()  # the last byte, and a change with each
        m.d.chosen += count.eq(count + 1)
        m.d.rise += begun.eq(Cat(self.copi, begun))
        with m.If(~self.cs_n & (count == 7)):
            m.d.rise += [come.eq(Cat(self.copi, begun)), arrived.eq(~arrived)]
        going, left = Signal(8), Signal()  # what is on its way, and a change with each byte that begins
        following = Signal(8, reset_less=True)  # in ``sync``, but at rest when it is looked at
        m.d.comb += self.cipo.eq(going[-1])
        with m.If(~self.cs_n):
            m.d.fall += going.eq(Mux(count == 0, following, going << 1))
            with m.If(count == 0):
                m.d.fall += left.eq(~left)

        # By our own.
        m.d.comb += [self.byte.eq(come), self.strobe.eq(self._changes(m, "arrived", arrived))]
        gone = self._changes(m, "left", left)
        real, passing = (Signal(name=name) for name in ("real", "passing"))
        m.d.comb += [self.i.ready.eq(gone), self.waiting.eq(self.i.valid | real | passing)]
        with m.If(gone):
            m.d.sync += [following.eq(Mux(self.i.valid, self.i.payload, 0)), real.eq(self.i.valid), passing.eq(real)]
        return m

    def _changes(self, m: Module, name: str, flag: Signal) -> Signal:
        """One cycle for each change of a flip-flop of the other clock; none for those before the reset was over."""
        here, before, changes = (Signal(name=f"{name}_{part}", reset_less=True) for part in ("here", "was", "now"))
        m.submodules[name] = FFSynchronizer(flag, here)
        m.d.sync += before.eq(here)
        m.d.comb += changes.eq(here != before)
        return changes
