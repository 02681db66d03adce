"""Sender of packets to the host: results, which are kept until they have arrived, acknowledgements and the greeting."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import memory, stream
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.greeting import ChipStatus
from onnx_hw_link.link import LOADED_DIGEST, FromChip, Link
from onnx_hw_rtl.link.crc import Crc16

__all__ = ["LinkSender"]

_HEADER_BYTES = 4  # kind, number, the number of the next packet of data, credit


class LinkSender(Component):
    """Sender of packets to the host.

    Ports:
        i, last: bytes of results; the last byte of a frame ends its packet.
        hello, ack, again, taken, missed, unknown, acked, expected, credit, kind: see ``LinkReceiver``.
        o, o_last: bytes of packets, for a ``CobsEncoder``.
        loads, loading, index, digest: with ``Link.load`` only. In: with ``taken``, the packet was a ``LOAD`` or a
            ``COMMIT``; contents are being loaded. Out: number of bytes of the payload behind the one that is sent next.
            In: a byte of the digest of what is loaded, one cycle later, the last one at index 0.
        damaged: with ``checked`` only. In: the chip takes no frames, since its weights are damaged.
    """

    def __init__(self, link: Link, *, checked: bool = False) -> None:
        self.link, self.checked = link, checked
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                **{name: In(1) for name in ("last", "hello", "ack", "again", "taken", "missed", "unknown")},
                **{name: In(8) for name in ("acked", "expected", "credit", "kind")},
                "o": Out(stream.Signature(8)),
                "o_last": Out(1),
                **({"loads": In(1), "loading": In(1), "index": Out(4), "digest": In(8)} if link.load else {}),
                **({"damaged": In(1)} if checked else {}),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        link, o = self.link, self.o
        idle = Signal(init=1)
        m.submodules.crc = ResetInserter(idle)(crc := Crc16())
        # One of these is high, or ``idle``: the bytes of a header one after the other, the payload, the bytes of the
        # CRC.
        header, in_payload, crc_high, crc_low = Signal(_HEADER_BYTES), Signal(), Signal(), Signal()
        byte, sent, second, reads, shown = Signal(8), Signal(), Signal(), Signal(), Signal()
        kind = Signal(3)
        following = Signal(8)  # number of the result that is sent now or next
        is_hello, is_result = kind == _low(FromChip.HELLO), kind == _low(FromChip.RESULT)
        # number of bytes of the payload after this one
        index = Signal(range(max(len(link.stored_greeting), link.slot_bytes)))
        stored, kept, payload = self._payloads(m, is_hello, following, index)
        due = ("hello", "status", "missing", "answer", "unknown")
        hello, status, missing, answer, unknown = (Signal(name=f"{name}_due") for name in due)
        loaded = Signal(name="loaded_due") if link.load else Const(0)
        if link.load:
            payload = self._of_loads(m, is_hello, index, payload)
        if self.checked:
            payload = self._with_alarm(m, is_hello, index, payload)
        other = Signal(8)  # the type that is unknown
        # the bit of the credit that changes with every quarter of the buffer that is read, as sent last
        told = Signal()
        news, begins = Signal(), Signal()
        m.d.comb += [
            sent.eq(o.valid & o.ready),
            o.valid.eq(shown),
            o.payload.eq(byte),
            self.o_last.eq(crc_low),
            crc.byte.eq(byte),
            # the CRC runs over its own bytes, too: its high byte removes itself, and then the low byte is on top
            crc.strobe.eq(sent),
        ]
        # A byte stays for one more cycle, for its CRC; meanwhile the next byte is read.
        m.d.sync += [second.eq(sent), reads.eq((second & ~idle) | begins), shown.eq(reads | (shown & ~sent))]
        # The byte that is sent.
        parts = [
            (header[0], Cat(kind, 0, 0, 0, 0, 1)),
            (header[1], Mux(kind == _low(FromChip.UNKNOWN), other, following)),
            (header[2], self.expected),
        ]
        parts += [(header[3], self.credit), (in_payload, payload), (crc_high | crc_low, crc.crc[8:])]
        with m.If(reads):
            m.d.sync += byte.eq(reduce(or_, (value & here.replicate(8) for here, value in parts)))
        # The bytes one after the other.
        at_end, has_payload = index == 0, is_hello | is_result
        with m.If(sent):
            m.d.sync += [
                header.eq(header << 1),
                in_payload.eq((header[-1] & has_payload) | (in_payload & ~at_end)),
                crc_high.eq((header[-1] & ~has_payload) | (in_payload & at_end)),
                crc_low.eq(crc_high),
                index.eq(index - 1),
            ]
            with m.If(crc_low):
                m.d.sync += [idle.eq(1), following.eq(following + is_result)]
        with m.If(header[-1]):
            m.d.sync += index.eq(Mux(is_hello, len(link.stored_greeting) - 1, link.result_bytes - 1))
        # The next packet.
        others = hello | missing | answer | unknown
        if link.load:
            others |= loaded
        m.d.comb += [
            news.eq(status | (told != self.credit[5])),
            begins.eq(idle & (others | news | (following[: len(stored)] != stored))),
        ]
        with m.If(begins):
            m.d.sync += [idle.eq(0), header.eq(1), status.eq(0), told.eq(self.credit[5])]
        with m.If(idle):
            m.d.sync += hello.eq(0)
            with m.If(hello):
                m.d.sync += [kind.eq(_low(FromChip.HELLO)), following.eq(0)]
            with m.Elif(missing):
                m.d.sync += [kind.eq(_low(FromChip.MISSING)), missing.eq(0)]
            with m.Elif(answer):
                m.d.sync += [kind.eq(_low(FromChip.ANSWER)), answer.eq(0), following.eq(kept)]
            with m.Elif(unknown):
                m.d.sync += [kind.eq(_low(FromChip.UNKNOWN)), unknown.eq(0)]
            if link.load:
                with m.Elif(loaded):
                    m.d.sync += [kind.eq(_low(FromChip.LOADED)), loaded.eq(0)]
            with m.Elif(news):
                m.d.sync += kind.eq(_low(FromChip.STATUS))
            with m.Else():
                m.d.sync += kind.eq(_low(FromChip.RESULT))
        # The reasons to send a packet.
        with m.If(self.taken):
            m.d.sync += status.eq(1)
        if link.load:
            with m.If(self.taken & self.loads):
                m.d.sync += loaded.eq(1)
        with m.If(self.missed):
            m.d.sync += missing.eq(1)
        with m.If(self.unknown):
            m.d.sync += [unknown.eq(1), other.eq(self.kind)]
        with m.If(self.ack & self.again):
            m.d.sync += answer.eq(1)
        with m.If(self.hello):
            m.d.sync += [hello.eq(1), status.eq(0), missing.eq(0), answer.eq(0), unknown.eq(0), told.eq(0)]
        if self.checked:  # the greeting once more, since its status is another one
            alarm = Signal()  # a host has come that does not know
            with m.If(self.hello):
                m.d.sync += alarm.eq(1)
            with m.Elif(alarm & self.damaged):
                m.d.sync += [alarm.eq(0), hello.eq(1)]
        return m

    def _with_alarm(self, m: Module, is_hello: Value, index: Signal, payload: Value) -> Value:
        """Return a byte of the payload, with the status of damaged weights in the greeting."""
        shown = Signal(8, name="payload_with_alarm")
        m.d.comb += shown.eq(payload)
        with m.If(is_hello & (index == len(self.link.stored_greeting) - 2) & self.damaged):
            m.d.comb += shown.eq(ChipStatus.WEIGHTS_DAMAGED)
        return shown

    def _of_loads(self, m: Module, is_hello: Value, index: Signal, payload: Value) -> Value:
        """Return a byte of the payload, with the status and the digest of what is loaded in the greeting."""
        at_status = len(self.link.stored_greeting) - 2  # behind the version
        missing = ChipStatus.WEIGHTS_MISSING
        shown = Signal(8, name="shown_payload")
        m.d.comb += [self.index.eq(index), shown.eq(payload)]
        with m.If(is_hello & (index < LOADED_DIGEST)):
            m.d.comb += shown.eq(self.digest)
        with m.If(is_hello & (index == at_status)):
            m.d.comb += shown.eq(Mux(self.loading, missing, ChipStatus.READY))
        return shown

    def _payloads(self, m: Module, is_hello: Value, number: Signal, index: Signal) -> tuple[Signal, Signal, Value]:
        """Build the buffer: one slot for each packet of results, with its bytes side by side.

        The slots leave some bytes free at the end of the memory. The greeting is stored there if it fits.

        Returns:
            (low bits of the number of the first result that is not complete, number of the oldest one that is kept,
            byte of the greeting or of another result).
        """
        slots, size, greeting = self.link.slots, self.link.slot_bytes, self.link.stored_greeting[::-1]
        room = 1 << (len(greeting) - 1).bit_length()  # a power of two, so that the bits above the index are ones
        fits = room <= slots * (size - self.link.result_bytes)
        contents = [*bytes(slots * size - room), *greeting] if fits else []
        m.submodules.memory = ram = memory.Memory(shape=8, depth=slots * size, init=contents)
        write_port, read_port = ram.write_port(), ram.read_port()
        slot_bits, byte_bits = (slots - 1).bit_length(), (size - 1).bit_length()
        stored = Signal(slot_bits + 1)  # number of the slot that is being filled
        kept = Signal(8)  # number of the oldest result that is kept
        filled = Signal(range(size), init=self.link.result_bytes - 1)  # number of bytes of that slot after this one
        taken, ended, at = Signal(), Signal(), Signal(range(slots * size))
        m.d.comb += at.eq(Cat(number[:slot_bits], index[:byte_bits]))
        if fits:
            with m.If(is_hello):
                m.d.comb += at.eq(slots * size - room | index)
        m.d.comb += [
            self.i.ready.eq((stored ^ kept)[: len(stored)] != slots),  # this is their distance when all slots are taken
            taken.eq(self.i.valid & self.i.ready),
            ended.eq(taken & (self.last | (filled == 0 if self.link.results > 1 else 0))),
            write_port.addr.eq(Cat(stored[:slot_bits], filled[:byte_bits])),
            write_port.data.eq(self.i.payload),
            write_port.en.eq(taken),
            read_port.addr.eq(at),
            read_port.en.eq(1),
        ]
        with m.If(taken):
            m.d.sync += filled.eq(filled - 1)
        with m.If(ended):
            m.d.sync += [filled.eq(self.link.result_bytes - 1), stored.eq(stored + 1)]
        with m.If(self.ack):
            m.d.sync += kept.eq(self.acked)
        with m.If(self.hello):
            m.d.sync += [stored.eq(0), kept.eq(0), filled.eq(self.link.result_bytes - 1)]
        if fits:
            return stored, kept, read_port.data
        return stored, kept, Mux(is_hello, self._in_logic(m, greeting, index), read_port.data)

    def _in_logic(self, m: Module, greeting: bytes, index: Signal) -> Signal:
        """Return a byte of the greeting, from look-up tables."""
        byte = Signal(8)
        with m.Switch(index):
            for k, value in enumerate(greeting):
                with m.Case(k):
                    m.d.comb += byte.eq(value)
        return byte


def _low(kind: FromChip) -> int:
    """Return the bits in which the kinds differ."""
    return int(kind) & 7
