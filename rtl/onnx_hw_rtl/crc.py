"""CRC-16/IBM-3740, a byte in each cycle: polynomial 0x1021, beginning with 0xFFFF, the high byte first."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Crc16"]


class Crc16(Component):
    """The CRC of bytes; a reset begins anew.

    A byte and the high byte of the CRC together make eight bits, of which the rest is made; so written, synthesis
    takes fewer look-up tables than for the matrix of sixteen by twenty-four bits.

    Ports:
        byte, strobe: the bytes.
        crc: of all of them.
        match: their last two are the CRC of those before.
    """

    def __init__(self) -> None:
        super().__init__({"byte": In(8), "strobe": In(1), "crc": Out(16, init=0xFFFF), "match": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mixed, apart = Signal(8), Signal(8)
        m.d.comb += [
            mixed.eq(self.byte ^ self.crc[8:]),
            apart.eq(mixed ^ mixed[4:]),
            self.match.eq(self.crc == 0),
        ]
        with m.If(self.strobe):
            low = Cat(Const(0, 8), self.crc[:8])
            m.d.sync += self.crc.eq(low ^ apart ^ Cat(Const(0, 5), apart) ^ Cat(Const(0, 12), apart[:4]))
        return m
