"""CRC-16/IBM-3740, half a byte per cycle: polynomial 0x1021, initial value 0xFFFF, the high byte first."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import Component, In, Out

__all__ = ["Crc16"]


class Crc16(Component):
    """CRC of a sequence of bytes. A reset begins anew.

    A byte takes two cycles, which halves the look-up tables of a whole byte at once.

    Ports:
        byte, strobe: the bytes, two cycles or more apart; each stays for one cycle after its strobe.
        crc: the CRC of all bytes so far.
        match: the last two bytes are the CRC of those before them.
    """

    def __init__(self) -> None:
        super().__init__(
            {"byte": In(8), "strobe": In(1), "crc": Out(16, init=0xFFFF), "match": Out(1)},
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        second, mixed = Signal(), Signal(4)
        m.d.sync += second.eq(self.strobe)
        m.d.comb += [
            mixed.eq(Mux(second, self.byte[:4], self.byte[4:]) ^ self.crc[12:]),
            self.match.eq(self.crc == 0),
        ]
        with m.If(self.strobe | second):
            above = Cat(Const(0, 4), self.crc[:12])
            m.d.sync += self.crc.eq(above ^ mixed ^ Cat(Const(0, 5), mixed) ^ Cat(Const(0, 12), mixed))
        return m
