"""SPI target, mode 0: bytes in both directions at once, by the controller's clock."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockDomain, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import Component, In, Out

__all__ = ["MIN_CLOCK_RATIO", "SPI_TARGET_PORTS", "SpiTarget"]

MIN_CLOCK_RATIO = 5 / 8
"""Least clock of the domain ``sync``, relative to the controller's clock: five cycles within a byte."""


SPI_TARGET_PORTS = {
    **{name: In(1) for name in ("sck", "copi")},
    "cs_n": In(1, init=1),
    "cipo": Out(1),
    "byte": Out(8),
    "strobe": Out(1),
    "i": In(stream.Signature(8)),
    "waiting": Out(1),
}
"""Ports of every SPI target, whichever clock takes the bits."""


class SpiTarget(Component):
    """SPI target. It receives bytes of packets, which end with a zero, and sends bytes, or zeros if it has none to
    send.

    Bits are taken at the rising edge of ``sck`` and put out at its falling edge, the highest first, by flip-flops that
    this very clock drives: no faster clock samples anything. A byte crosses to the domain ``sync`` and back as a whole,
    in a register that is stable while a flip-flop that changed together with it passes two others. That takes up to
    five cycles of ``sync``, and the eight cycles of ``sck`` that a byte takes are available for it.

    A byte that ``cs_n`` interrupts does not reach the chip; the next one begins at its first bit. Any number of bytes
    may pass while ``cs_n`` is low.

    Ports:
        sck, cs_n, copi: from the controller.
        cipo: to the controller; the owner of the pad drives it while ``cs_n`` is low.
        byte, strobe: a byte has arrived; high for one cycle.
        i: bytes for the controller; the bytes of a packet have at most three cycles of ``sync`` between them.
        waiting: a byte of a packet has not passed yet: the controller may clock until this is low.
    """

    def __init__(self) -> None:
        super().__init__(SPI_TARGET_PORTS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rise = ClockDomain("rise", reset_less=True, local=True)
        fall = ClockDomain("fall", reset_less=True, local=True, clk_edge="neg")
        chosen = ClockDomain("chosen", async_reset=True, local=True)
        m.domains += [rise, fall, chosen]
        m.d.comb += [clock.clk.eq(self.sck) for clock in (rise, fall, chosen)]
        m.d.comb += chosen.rst.eq(self.cs_n)

        # In the controller's clock domain.
        count = Signal(3)  # bits of the byte
        begun = Signal(7)
        come, arrived = Signal(8), Signal()  # the last byte, and a flip-flop that changes with each byte
        m.d.chosen += count.eq(count + 1)
        m.d.rise += begun.eq(Cat(self.copi, begun))
        with m.If(~self.cs_n & (count == 7)):
            m.d.rise += [come.eq(Cat(self.copi, begun)), arrived.eq(~arrived)]
        # the byte that is being sent, and a flip-flop that changes with each byte that begins
        going, left = Signal(8), Signal()
        following = Signal(8, reset_less=True)  # belongs to ``sync``, but is stable when it is read here
        m.d.comb += self.cipo.eq(going[-1])
        with m.If(~self.cs_n):
            m.d.fall += going.eq(Mux(count == 0, following, going << 1))
            with m.If(count == 0):
                m.d.fall += left.eq(~left)

        # In our own clock domain.
        m.d.comb += [self.byte.eq(come), self.strobe.eq(self._changes(m, "arrived", arrived))]
        gone = self._changes(m, "left", left)
        real, passing = (Signal(name=name) for name in ("real", "passing"))
        m.d.comb += [self.i.ready.eq(gone), self.waiting.eq(self.i.valid | real | passing)]
        with m.If(gone):
            m.d.sync += [following.eq(Mux(self.i.valid, self.i.payload, 0)), real.eq(self.i.valid), passing.eq(real)]
        return m

    def _changes(self, m: Module, name: str, flag: Signal) -> Signal:
        """Return a strobe for each change of a flip-flop of the other clock, except changes during the reset."""
        here, before, changes = (Signal(name=f"{name}_{part}", reset_less=True) for part in ("here", "was", "now"))
        m.submodules[name] = FFSynchronizer(flag, here)
        m.d.sync += before.eq(here)
        m.d.comb += changes.eq(here != before)
        return changes
