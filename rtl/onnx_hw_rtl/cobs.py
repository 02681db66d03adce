"""Packets in a row of bytes without zeros: see docs/link.md, and ``onnx_hw_link.packets`` for the same in Python."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

__all__ = ["CobsDecoder", "CobsEncoder"]

_FULL = 255  # the code of a run of 254 bytes that no zero follows


class CobsDecoder(Component):
    """COBS, byte by byte: each run of bytes that are not zero stands behind its length and one.

    Ports:
        byte, strobe: of the wire.
        o_byte, o_strobe: of the packet, in the same cycle.
        end: the packet is over, in the cycle of the zero behind it.
        whole: with ``end``: it ended where a run ended.
    """

    def __init__(self) -> None:
        ports = {"byte": In(8), "strobe": In(1), "o_byte": Out(8), "o_strobe": Out(1), "end": Out(1), "whole": Out(1)}
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        left = Signal(8)  # bytes of the run to come, and one; none at the beginning of a packet
        zero = Signal()  # one stands between this run and the next
        at_code = left[1:] == 0
        is_zero = self.byte == 0
        m.d.comb += [
            self.end.eq(self.strobe & is_zero),
            self.whole.eq(at_code),
            self.o_strobe.eq(self.strobe & ~is_zero & (~at_code | zero)),
            self.o_byte.eq(Mux(at_code, 0, self.byte)),
        ]
        with m.If(self.strobe):
            m.d.sync += left.eq(Mux(at_code | is_zero, self.byte, left - 1))
            with m.If(at_code | is_zero):
                m.d.sync += zero.eq(~is_zero & (self.byte != _FULL))
        return m


class CobsEncoder(Component):
    """The mirror image, byte by byte: each run stands before its length and one; a zero behind the packet.

    Ports:
        i: bytes of packets, ``last`` at the end of each.
        o: bytes of the wire.
    """

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(8)), "last": In(1), "o": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i, o = self.i, self.o
        code = Signal(8, init=1)  # bytes of the run so far, and one
        ended = Signal()  # the last byte of the packet has gone
        closed = Signal()  # and the last code
        full, by_code, passes = code == _FULL, Signal(), Signal()
        m.d.comb += [
            by_code.eq(Mux(ended, ~closed, i.payload == 0) | full),
            passes.eq(o.valid & o.ready),
            o.valid.eq(i.valid | full | ended),
            o.payload.eq(Mux(by_code, code, i.payload) & ~closed.replicate(8)),
            i.ready.eq(o.ready & ~full & ~ended),
        ]
        with m.If(passes & ~closed):
            m.d.sync += code.eq(Mux(by_code, 1, code + 1))
        with m.If(i.valid & i.ready):
            m.d.sync += ended.eq(self.last)
        with m.If(passes & ended & ~full):
            m.d.sync += [closed.eq(~closed), ended.eq(~closed)]
        return m
