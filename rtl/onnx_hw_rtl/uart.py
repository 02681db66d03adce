"""A serial line: bytes to bits and back, 8 data bits, no parity, one stop bit, the lowest bit first."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

__all__ = ["LEAST_DIVISOR", "UartReceiver", "UartTransmitter"]

LEAST_DIVISOR = 4
"""Cycles of a bit: the receiver finds the middle of a bit to within one of them."""


class UartReceiver(Component):
    """Bytes of a line.

    A line that is broken is told as zeros. A stop bit that is missing is not looked at: the CRC of a packet is.

    Args:
        divisor: clock cycles of a bit.

    Ports:
        rx: the line; 1 when nothing is sent.
        byte, strobe: a byte has come, for one cycle.
    """

    def __init__(self, divisor: int) -> None:
        self.divisor = _checked(divisor)
        super().__init__({"rx": In(1), "byte": Out(8), "strobe": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(2, init=0b11)  # the line keeps no clock of ours
        level = line[1]
        m.d.sync += line.eq(Cat(self.rx, line[0]))
        left = Signal(range(self.divisor))  # cycles until the bit is sampled
        bits = Signal(9)  # what has come; the start bit, 0 at last, began at the top of nine ones
        busy = Signal()
        m.d.sync += left.eq(Mux(left == 0, self.divisor - 1, left - 1))
        with m.If(~busy):
            m.d.sync += [left.eq((self.divisor - 1) // 2), bits.eq(0x1FF), busy.eq(~level)]
        with m.Elif(left == 0):
            m.d.sync += bits.eq(Cat(bits[1:], level))
            with m.If(bits[0] == 0):  # this is the stop bit
                m.d.comb += self.strobe.eq(1)
                m.d.sync += busy.eq(0)
            with m.Elif((bits == 0x1FF) & level):  # it was no start bit
                m.d.sync += busy.eq(0)
        m.d.comb += self.byte.eq(bits[1:])
        return m


class UartTransmitter(Component):
    """Bytes onto a line.

    Args:
        divisor: clock cycles of a bit.

    Ports:
        i: the bytes.
        tx: the line.
    """

    def __init__(self, divisor: int) -> None:
        self.divisor = _checked(divisor)
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(range(self.divisor))
        bits = Signal(9)  # what is still to be sent, the stop bit at last
        line = Signal(init=1)
        m.d.comb += [self.tx.eq(line), self.i.ready.eq((left == 0) & (bits == 0))]
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Elif(bits != 0):
            m.d.sync += [line.eq(bits[0]), bits.eq(bits >> 1), left.eq(self.divisor - 1)]
        with m.Elif(self.i.valid):
            m.d.sync += [line.eq(0), bits.eq(Cat(self.i.payload, 1)), left.eq(self.divisor - 1)]
        return m


def _checked(divisor: int) -> int:
    if divisor < LEAST_DIVISOR:
        raise ValueError(f"a bit must take {LEAST_DIVISOR} clock cycles or more, not {divisor}")
    return divisor
