"""Framing of packets in a sequence of bytes without zeros: see docs/link.md, and ``onnx_hw_link.packets`` for the same
in Python.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out

__all__ = ["CobsDecoder", "CobsEncoder"]

_FULL_RUN_CODE = 255  # the code of a run of 254 bytes that no zero follows


class CobsDecoder(Component):
    """COBS decoder, byte by byte: each run of bytes that are not zero follows its length plus one.

    Ports:
        byte, strobe: bytes from the wire, two cycles or more apart; each stays for one cycle after its strobe.
        o_byte, o_strobe: bytes of the packet, in the same cycles.
        end: the packet is over, in the cycle of the zero after it.
        whole: with ``end``: the packet ended where a run ended.
    """

    def __init__(self) -> None:
        ports = {"byte": In(8), "strobe": In(1), "o_byte": Out(8), "o_strobe": Out(1), "end": Out(1), "whole": Out(1)}
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        code, count = Signal(8, init=1), Signal(8, init=1)  # code of the run; number of its bytes so far, plus one
        zero = Signal()  # a zero stands between this run and the next
        at_code = code == count
        is_zero = self.byte == 0
        passes = Signal()
        m.d.comb += [
            self.end.eq(self.strobe & is_zero),
            self.whole.eq(at_code),
            self.o_strobe.eq(self.strobe & ~is_zero & (~at_code | zero)),
            self.o_byte.eq(Mux(at_code, 0, self.byte)),
        ]
        m.d.sync += passes.eq(self.strobe)
        with m.If(passes):
            m.d.sync += count.eq(count + 1)
        with m.If(passes & (at_code | is_zero)):
            m.d.sync += [count.eq(1), code.eq(self.byte | is_zero)]  # a packet begins where a run has ended
            m.d.sync += zero.eq(~is_zero & (self.byte != _FULL_RUN_CODE))
        return m


class CobsEncoder(Component):
    """COBS encoder, byte by byte: each run follows its length plus one, and a zero follows the packet.

    Ports:
        i: bytes of packets, ``last`` at the end of each.
        o: bytes for the wire.
    """

    def __init__(self) -> None:
        super().__init__({"i": In(stream.Signature(8)), "last": In(1), "o": Out(stream.Signature(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        i, o = self.i, self.o
        code = Signal(8, init=1)  # number of bytes of the run so far, plus one
        ended = Signal()  # the last byte of the packet has been sent
        closed = Signal()  # the last code has been sent, too
        full, by_code, passes = code == _FULL_RUN_CODE, Signal(), Signal()
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
