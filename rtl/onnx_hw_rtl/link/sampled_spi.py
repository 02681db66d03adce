"""SPI target, mode 0, that samples its pins with the clock of the domain ``sync``: one clock in the whole chip."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import Component

from onnx_hw_rtl.link.spi import SPI_TARGET_PORTS

MIN_CYCLES_PER_BIT = 4
"""Least number of cycles of ``sync`` in one cycle of the controller's clock."""


class SampledSpiTarget(Component):
    """SPI target. It receives bytes of packets and sends bytes, or zeros if it has none to send, the highest bit first.

    The pins pass two flip-flops each. A rising edge of ``sck`` is seen two to three cycles after it; the bit that came
    with it is taken, and ``cipo`` changes to the next bit, before the controller takes that with the next rising edge.
    For the controller this is mode 0 with an output that changes a little later.

    A byte that ``cs_n`` interrupts does not reach the chip, and is sent once more.

    Ports:
        sck, cs_n, copi: from the controller; ``sck`` takes ``MIN_CYCLES_PER_BIT`` cycles or more, half of them high.
        cipo: to the controller.
        byte, strobe: a byte has arrived; the strobe is high for one cycle, and the byte stays for one more.
        i: bytes for the controller; within a packet, the next byte is there before the one before it has passed.
        waiting: a byte of a packet has not passed yet: the controller may clock until this is low.
    """

    def __init__(self) -> None:
        super().__init__(SPI_TARGET_PORTS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        clock, chosen, data = Signal(3), Signal(2), Signal(2)  # the lowest bit is the newest
        m.d.sync += [
            clock.eq(Cat(self.sck, clock)),
            chosen.eq(Cat(~self.cs_n, chosen)),
            data.eq(Cat(self.copi, data)),
        ]
        rises, passes = Signal(), Signal()
        count = Signal(3)  # bits of the byte so far
        going, real = Signal(8), Signal()  # the byte that is being sent, and whether it belongs to a packet
        m.d.comb += [
            rises.eq(clock[1] & ~clock[2] & chosen[1]),
            passes.eq(rises & (count == 7)),
            self.cipo.eq(going.bit_select(~count, 1)),
            self.i.ready.eq(passes),
            self.waiting.eq(self.i.valid | real),
        ]
        m.d.sync += self.strobe.eq(passes)
        with m.If(rises):
            m.d.sync += [count.eq(count + 1), self.byte.eq(Cat(data[1], self.byte))]
        with m.If(passes):
            m.d.sync += [going.eq(self.i.payload & self.i.valid.replicate(8)), real.eq(self.i.valid)]
        with m.If(~chosen[1]):
            m.d.sync += count.eq(0)
        return m
