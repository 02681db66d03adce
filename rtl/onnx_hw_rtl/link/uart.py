"""Serial line: bytes to bits and back, 8 data bits, no parity, one stop bit, the lowest bit first."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.parts.lfsr_counter import next_state, state_after, width_for

__all__ = ["MIN_DIVISOR", "UartReceiver", "UartTransmitter"]

MIN_DIVISOR = 4
"""Least number of clock cycles of a bit: the receiver finds the middle of a bit to within one cycle."""


class UartReceiver(Component):
    """Receiver of bytes from a line.

    A break on the line is received as zeros. The receiver does not check the stop bit; the CRC of a packet protects it.

    Args:
        divisor: clock cycles of a bit.

    Ports:
        rx: the line; 1 when nothing is sent.
        byte, strobe: a byte has arrived; the strobe is high for one cycle, and the byte stays for one more.
    """

    def __init__(self, divisor: int) -> None:
        self.divisor = _checked(divisor)
        super().__init__({"rx": In(1), "byte": Out(8), "strobe": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        line = Signal(2, init=0b11)  # the line is asynchronous to our clock
        level = line[1]
        m.d.sync += line.eq(Cat(self.rx, line[0]))
        place = Signal(width_for(self.divisor))  # position in a bit, as the state of an LFSR
        # bits received so far; the start bit, 0, begins above nine ones and is at the bottom in the end
        bits = Signal(9)
        busy, first = Signal(), Signal()
        m.d.sync += place.eq(next_state(place))
        with m.If(~busy | (place == state_after(self.divisor - 1, len(place)))):
            m.d.sync += place.eq(0)
        with m.If(~busy):
            m.d.sync += [first.eq(1), busy.eq(~level)]
            with m.If(~level):
                m.d.sync += bits.eq(0x1FF)
        with m.Elif(place == state_after((self.divisor - 1) // 2, len(place))):
            m.d.sync += first.eq(0)
            with m.If(bits[0]):
                m.d.sync += bits.eq(Cat(bits[1:], level))
            m.d.comb += self.strobe.eq(~bits[0])  # this is the stop bit
            m.d.sync += busy.eq(bits[0] & ~(first & level))  # or it was not a start bit
        m.d.comb += self.byte.eq(bits[1:])
        return m


class UartTransmitter(Component):
    """Transmitter of bytes to a line.

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
        place = Signal(width_for(self.divisor))  # position in a bit, also between bytes, as the state of an LFSR
        bits = Signal(9)  # bits that are still to be sent, the stop bit last
        line = Signal(init=1)
        begins = place == state_after(self.divisor - 1, len(place))
        m.d.comb += [self.tx.eq(line), self.i.ready.eq(begins & (bits == 0))]
        m.d.sync += place.eq(next_state(place))
        with m.If(begins):
            m.d.sync += [place.eq(0), line.eq(bits[0]), bits.eq(bits >> 1)]
            with m.If(bits == 0):
                m.d.sync += line.eq(~self.i.valid)
                with m.If(self.i.valid):
                    m.d.sync += bits.eq(Cat(self.i.payload, 1))
        return m


def _checked(divisor: int) -> int:
    if divisor < MIN_DIVISOR:
        raise ValueError(f"a bit must take {MIN_DIVISOR} clock cycles or more, not {divisor}")
    return divisor
