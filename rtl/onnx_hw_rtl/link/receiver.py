"""Receiver of the host's packets. It checks their CRC, puts their data into a buffer and reports everything else.

Bytes of a packet are written behind those that are known to be right; they count as right once the packet is.
"""

from __future__ import annotations

from amaranth.hdl import Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import memory, stream
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.link import FromHost, Link
from onnx_hw_rtl.link.crc import Crc16

__all__ = ["LinkReceiver"]

_HEADER_BYTES = 3  # kind, number, the next result that the host waits for
_MIN_PACKET_BYTES = _HEADER_BYTES + 2  # with the CRC


class LinkReceiver(Component):
    """Receiver of packets from the host.

    Ports:
        byte, strobe, end, whole: outputs of a ``CobsDecoder`` on the wire.
        o: the data, byte by byte.
        at_start: the next byte is the first of a frame. If ``Link.frame_at_once``, it waits for the frame's last byte.
        hello: the host begins anew; high for one cycle. Everything behind this component has to begin anew, too.
        ack, acked: (strobe) all results before number ``acked`` have arrived at the host.
        again: with ``ack``: the host wants the results from there on once more, or any answer.
        unknown, kind: (strobe) a whole packet of a type that is not in ``FromHost`` came; the first byte of a packet.
        taken, missed: (strobes) a packet of data was taken; or it arrived damaged or out of turn.
        expected: number of the next packet of data.
        credit: number of bytes that have left the buffer, in ``Link.credit_unit``, modulo 256.
        loading, load, loads, commit: with ``Link.load`` only. In: contents are being loaded, and no data is taken. Out:
            (strobe) a byte of such a packet came, its CRC included; the packet is a ``LOAD`` or a ``COMMIT``; it is a
            ``COMMIT``.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        super().__init__(
            {
                **{name: In(1) for name in ("strobe", "end", "whole", "at_start")},
                **{name: Out(1) for name in ("hello", "ack", "again", "taken", "missed", "unknown")},
                **{name: Out(8) for name in ("acked", "expected", "credit", "kind")},
                "byte": In(8),
                "o": Out(stream.Signature(8)),
                **({"loading": In(1), "load": Out(1), "loads": Out(1), "commit": Out(1)} if link.load else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.crc = ResetInserter(self.end)(crc := Crc16())
        kind, number = self.kind, Signal(8)
        greeted, known = Signal(), Signal()  # a session has begun; this type is in ``FromHost``
        come = Signal(_MIN_PACKET_BYTES)  # the packet has a byte, two bytes, ...
        is_data, behind = kind == FromHost.DATA, Signal(8)
        numbered, data, takes, last = is_data, is_data, is_data, FromHost.POLL  # ``last``: the last type that is known
        if self.link.load:
            is_load, last = (kind == FromHost.LOAD) | (kind == FromHost.COMMIT), FromHost.COMMIT
            numbered, data = is_data | is_load, is_data & ~self.loading
            takes = data | is_load
        in_turn = behind == 0
        overflow, write, right = Signal(), Signal(), Signal()
        m.d.comb += [
            behind.eq(self.expected - number),
            crc.byte.eq(self.byte),
            crc.strobe.eq(self.strobe),
            write.eq(self.strobe & come[_HEADER_BYTES - 1] & data & in_turn),
            right.eq(self.end & self.whole & crc.match & come[-1]),
        ]
        with m.If(self.strobe):
            m.d.sync += come.eq(come << 1 | 1)
        with m.If(self.end):
            m.d.sync += come.eq(0)
        for field, before, here in zip((kind, number, self.acked), (1, *come), come, strict=False):
            with m.If(self.strobe & before & ~here):
                m.d.sync += field.eq(self.byte)
        m.d.comb += [
            self.hello.eq(right & (kind == FromHost.HELLO)),
            known.eq((kind != 0) & (kind <= last)),
            self.unknown.eq(right & ~known & greeted),
            self.ack.eq(right & known & ~self.hello),
            self.again.eq(kind == FromHost.POLL),
            self.taken.eq(right & takes & in_turn & ~overflow),
        ]
        if self.link.load:
            m.d.comb += [
                self.load.eq(self.strobe & come[_HEADER_BYTES - 1] & is_load & in_turn & self.loading),
                self.loads.eq(is_load),
                self.commit.eq(kind == FromHost.COMMIT),
            ]
        self._report_missing(m, right, numbered, behind, come[0], greeted)
        with m.If(self.hello | self.taken):
            m.d.sync += self.expected.eq(number + numbered)
        self._build_buffer(m, write, overflow, self.taken & is_data if self.link.load else self.taken)
        return m

    def _report_missing(
        self, m: Module, right: Signal, is_data: Value, behind: Signal, begun: Value, greeted: Signal
    ) -> None:
        """Report a packet that is damaged at once, but not those that come out of turn after it.

        Packets that have been taken before are not missed: half of all numbers count as earlier.
        """
        told, wrong, ahead = (Signal(name=name) for name in ("told", "wrong", "ahead"))
        m.d.comb += [
            wrong.eq(self.end & ~right & ~(self.whole & ~begun)),  # two zeros in a row are not a packet
            ahead.eq(right & is_data & ~self.taken & (behind[7] | (behind == 0))),
            self.missed.eq(greeted & (wrong | (ahead & ~told))),
        ]
        with m.If(self.hello):
            m.d.sync += [greeted.eq(1), told.eq(0)]
        with m.Elif(self.end):
            m.d.sync += told.eq((told | ahead | wrong) & ~self.taken)

    def _build_buffer(self, m: Module, write: Signal, overflow: Signal, taken: Value) -> None:
        """Build the buffer: bytes up to ``sure`` may be read, those behind it wait for their CRC."""
        size = self.link.input_buffer
        m.submodules.memory = ram = memory.Memory(shape=8, depth=size, init=[])
        write_port, read_port = ram.write_port(), ram.read_port()
        written, sure, read = (Signal(range(2 * size), name=name) for name in ("written", "sure", "read"))
        full = written == read ^ size
        moved = (written + Mux(self.end, -2, 1))[: len(written)]  # back by the CRC, or on by a byte
        fresh, enough = Signal(), Signal(init=1)  # the memory shows the byte at ``read``; the whole frame is there
        m.d.comb += [
            write_port.addr.eq(written),
            write_port.data.eq(self.byte),
            write_port.en.eq(write & ~full),
            read_port.addr.eq(read),
            read_port.en.eq(1),
            self.o.payload.eq(read_port.data),
            self.o.valid.eq(fresh & (~self.at_start | enough)),
            self.credit.eq(read[-8:]),
        ]
        m.d.sync += fresh.eq((read != sure) & ~(self.o.valid & self.o.ready) & ~self.hello)
        if self.link.frame_at_once:
            m.d.sync += enough.eq(_is_ahead(sure, read, self.link.input_bytes))
        with m.If(self.hello):
            m.d.sync += read.eq(0)
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += read.eq(read + 1)
        with m.If(self.hello):
            m.d.sync += [written.eq(0), sure.eq(0), overflow.eq(0)]
        with m.Elif(self.end):
            m.d.sync += overflow.eq(0)
            with m.If(taken):
                m.d.sync += [written.eq(moved), sure.eq(moved)]
            with m.Else():
                m.d.sync += written.eq(sure)
        with m.Elif(write):
            with m.If(full):
                m.d.sync += overflow.eq(1)
            with m.Else():
                m.d.sync += written.eq(moved)


def _is_ahead(sure: Value, read: Value, frame: int) -> Value:
    """Return whether there is a whole frame. ``read`` is at the beginning of one, so the lowest bits do not differ."""
    below = (frame & -frame).bit_length() - 1
    first, others = read[below:], sure[below:]
    return first != others if frame >> below == 1 else _at_least((others - first)[: len(first)], frame >> below)


def _at_least(value: Value, least: int) -> Value:
    """Return whether a number is at least a constant, by a gate per bit that matters: synthesis would subtract."""
    # result for the bits so far, from the lowest bit that is set in ``least``; lower bits do not matter
    reached: Value | None = None
    for bit in range(len(value)):
        if reached is None:
            reached = value[bit] if least >> bit & 1 else None
        else:
            reached = value[bit] & reached if least >> bit & 1 else value[bit] | reached
    assert reached is not None
    return reached
