"""What goes to the host: results, kept until they have come; what was taken of its packets; who we are."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import memory, stream
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.link import FromChip, Link
from onnx_hw_rtl.crc import Crc16

__all__ = ["LinkSender"]

_INDICES = 256  # the last one is that of a greeting's last byte
_HEADER = 4  # bytes: kind, number, the number of the next packet of data, credit


class LinkSender(Component):
    """Packets for the host.

    Ports:
        i, last: bytes of results; the last one of a frame ends its packet.
        hello, ack, again, taken, missed, acked, expected, credit: see ``LinkReceiver``.
        o, o_last: bytes of packets, for a ``CobsEncoder``.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                **{name: In(1) for name in ("last", "hello", "ack", "again", "taken", "missed")},
                **{name: In(8) for name in ("acked", "expected", "credit")},
                "o": Out(stream.Signature(8)),
                "o_last": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        link, o = self.link, self.o
        begin = Signal()
        m.submodules.crc = ResetInserter(begin)(crc := Crc16())
        busy, in_payload, in_crc, shown = (Signal(name=name) for name in ("busy", "in_payload", "in_crc", "shown"))
        kind, index = Signal(3), Signal(8)
        following = Signal(8)  # number of the result that is sent, or will be next
        is_hello, is_result = kind == _low(FromChip.HELLO), kind == _low(FromChip.RESULT)
        stored, kept, payload = self._payloads(m, is_hello, following, index)
        due = ("hello", "status", "missing", "answer")
        hello, status, missing, answer = (Signal(name=f"{name}_due") for name in due)
        told = Signal()  # the bit of the credit that says that a quarter of the buffer was read
        greeted = _INDICES - len(link.greeting.to_bytes())  # index of the first byte of a greeting
        ends = {FromChip.HELLO: _INDICES, FromChip.RESULT: link.result_bytes}
        sent, at_end = Signal(), Signal()
        has_payload = is_hello | is_result
        m.d.comb += [
            sent.eq(o.valid & o.ready),
            o.valid.eq(busy & shown),
            self.o_last.eq(in_crc & index[0]),
            crc.byte.eq(o.payload),
            crc.strobe.eq(sent),  # of itself, too: its high byte takes that away, and the low byte is high then
            begin.eq(~busy),
        ]
        m.d.sync += shown.eq(busy & ~sent)  # memory and CRC need a cycle
        # What is sent.
        with m.If(in_crc):
            m.d.comb += o.payload.eq(crc.crc[8:])
        with m.Elif(in_payload):
            m.d.comb += o.payload.eq(payload)
        with m.Else():
            header = (Cat(kind, 0, 0, 0, 0, 1), following, self.expected, self.credit)
            with m.Switch(index[:2]):
                for k, byte in enumerate(header):
                    with m.Case(k):
                        m.d.comb += o.payload.eq(byte)
        # One byte after the other.
        with m.Switch(kind):
            for packet, end in ends.items():
                with m.Case(_low(packet)):
                    m.d.comb += at_end.eq(index == end - 1)
        with m.If(sent):
            m.d.sync += index.eq(index + 1)
            with m.If(in_crc & index[0]):
                m.d.sync += [busy.eq(0), in_crc.eq(0), index.eq(0), following.eq(following + is_result)]
            with m.Elif(in_payload & at_end):
                m.d.sync += [in_payload.eq(0), in_crc.eq(1), index.eq(0)]
            with m.Elif(~in_crc & ~in_payload & (index[:2] == _HEADER - 1)):
                m.d.sync += [in_payload.eq(has_payload), in_crc.eq(~has_payload), index.eq(Mux(is_hello, greeted, 0))]
        # The next packet.
        with m.If(~busy):
            with m.If(hello):
                m.d.sync += [busy.eq(1), kind.eq(_low(FromChip.HELLO)), hello.eq(0), following.eq(0)]
            with m.Elif(missing | answer | status | (told != self.credit[5])):
                other = Mux(answer, _low(FromChip.ANSWER), _low(FromChip.STATUS))
                m.d.sync += [busy.eq(1), kind.eq(Mux(missing, _low(FromChip.MISSING), other))]
                m.d.sync += [missing.eq(0), answer.eq(answer & missing), status.eq(0), told.eq(self.credit[5])]
                with m.If(answer & ~missing):
                    m.d.sync += following.eq(kept)
            with m.Elif(following != stored):
                m.d.sync += [busy.eq(1), kind.eq(_low(FromChip.RESULT)), told.eq(self.credit[5])]
        # What has to be sent.
        with m.If(self.taken):
            m.d.sync += status.eq(1)
        with m.If(self.missed):
            m.d.sync += missing.eq(1)
        with m.If(self.ack & self.again):
            m.d.sync += answer.eq(1)
        with m.If(self.hello):
            m.d.sync += [hello.eq(1), status.eq(0), missing.eq(0), answer.eq(0), told.eq(0)]
        return m

    def _payloads(self, m: Module, is_hello: Value, number: Signal, index: Signal) -> tuple[Signal, Signal, Value]:
        """The buffer, a slot for each packet of results, their bytes side by side: what they leave free is at its end,
        and holds the greeting, if that has room there.

        Returns:
            (number of the first result that is not complete, that of the oldest one that is kept, byte of the greeting
            or of another result).
        """
        slots, size, greeting = self.link.slots, self.link.slot_bytes, self.link.greeting.to_bytes()
        fits = len(greeting) <= slots * (size - self.link.result_bytes)
        contents = [*bytes(slots * size - len(greeting)), *greeting] if fits else []
        m.submodules.memory = ram = memory.Memory(shape=8, depth=slots * size, init=contents)
        write_port, read_port = ram.write_port(), ram.read_port()
        stored, kept = Signal(8), Signal(8)  # numbers: of the slot that is filled, of the oldest that is kept
        filled = Signal(range(size))
        slot_bits, byte_bits = (slots - 1).bit_length(), (size - 1).bit_length()
        taken, at = Signal(), Signal(range(slots * size))
        m.d.comb += at.eq(Cat(number[:slot_bits], index[:byte_bits]))
        if fits:
            with m.If(is_hello):
                m.d.comb += at.eq(len(contents) - _INDICES | index)  # the highest bits are ones
        m.d.comb += [
            self.i.ready.eq((stored ^ kept)[: slot_bits + 1] != slots),  # they are as many apart where all are taken
            taken.eq(self.i.valid & self.i.ready),
            write_port.addr.eq(Cat(stored[:slot_bits], filled[:byte_bits])),
            write_port.data.eq(self.i.payload),
            write_port.en.eq(taken),
            read_port.addr.eq(at),
            read_port.en.eq(1),
        ]
        with m.If(self.hello):
            m.d.sync += [stored.eq(0), kept.eq(0), filled.eq(0)]
        with m.Else():
            with m.If(taken):
                m.d.sync += filled.eq(filled + 1)
                with m.If(self.last | (filled == self.link.result_bytes - 1)):
                    m.d.sync += [filled.eq(0), stored.eq(stored + 1)]
            with m.If(self.ack):
                m.d.sync += kept.eq(self.acked)
        if fits:
            return stored, kept, read_port.data
        return stored, kept, Mux(is_hello, self._in_logic(m, greeting, index), read_port.data)

    def _in_logic(self, m: Module, greeting: bytes, index: Signal) -> Signal:
        """A byte of what is said of this design."""
        byte = Signal(8)
        with m.Switch(index):
            for k, value in enumerate(greeting, _INDICES - len(greeting)):
                with m.Case(k):
                    m.d.comb += byte.eq(value)
        return byte


def _low(kind: FromChip) -> int:
    """The bits in which the kinds differ."""
    return int(kind) & 7
