"""Chip's end of a link: bytes of a wire on one side, streams of a network on the other. See docs/link.md."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Module, ResetInserter, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import Component, In, Out, connect, flipped

from onnx_hw_link.link import Link, LoadArea
from onnx_hw_rtl.link.cobs import CobsDecoder, CobsEncoder
from onnx_hw_rtl.link.loader import ContentsLoader
from onnx_hw_rtl.link.receiver import LinkReceiver
from onnx_hw_rtl.link.sender import LinkSender
from onnx_hw_rtl.link.timestamps import FrameTimestamps
from onnx_hw_rtl.streams.beats import BeatsFromBytes, BytesFromBeats

__all__ = ["LinkEnd"]

PASSES_AHEAD_BITS = 16
"""Bits of the number of passes that a reader may be ahead of the results: far more than FIFOs hold frames."""

RESTART_CYCLES = 4
"""Cycles for which the network is reset when a host begins anew."""


class LinkEnd(Component):
    """Converter of packets into beats and back.

    Ports:
        byte, strobe: bytes from the wire, two cycles or more apart.
        o: bytes for the wire, to the host.
        {name}_payload, {name}_valid, {name}_ready: the streams of the network; those of its inputs go out.
        restart: the network has to be reset.
        pass_bad, pass_begins: where the network checks weights that it reads, once a frame: one pass was bad; a pass
            begins, and all before were good.
        damaged: a pass was bad, since the chip's configuration.
        load_address, load_word, load_write: with ``Link.load``, the bus of the network's memories, see
            ``onnx_hw_rtl.parts.constant_memory.LoadBus``.
    """

    def __init__(self, link: Link, *, checked: bool = False) -> None:
        self.link, self.checked = link, checked
        ports: dict[str, object] = {"byte": In(8), "strobe": In(1), "o": Out(stream.Signature(8)), "restart": Out(1)}
        for side, there, back in ((link.inputs, Out, In), (link.outputs, In, Out)):
            for port in side:
                ports |= {f"{port.name}_payload": there(port.width * port.bits)}
                ports |= {f"{port.name}_valid": there(1), f"{port.name}_ready": back(1)}
        if link.load:
            widths = {"address": link.load.address_bits, "word": 8 * link.load.word_bytes, "write": 1}
            ports |= {f"load_{part}": Out(width) for part, width in widths.items()}
        if checked:
            ports |= {"pass_bad": In(1), "pass_begins": In(1), "damaged": Out(1)}
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        link = self.link
        m.submodules.decoder, m.submodules.encoder = decoder, encoder = CobsDecoder(), CobsEncoder()
        receiver, sender = LinkReceiver(link), LinkSender(link, checked=self.checked)
        m.submodules.receiver, m.submodules.sender = receiver, sender
        beats, taken_apart = (
            BeatsFromBytes(link.inputs, link.input_turns),
            BytesFromBeats(link.outputs, link.output_turns),
        )
        times = FrameTimestamps()
        anew = ResetInserter(self.restart)
        m.submodules.beats, m.submodules.taken_apart, m.submodules.times = anew(beats), anew(taken_apart), anew(times)
        restarts = Signal(RESTART_CYCLES, init=(1 << RESTART_CYCLES) - 1)
        m.d.sync += restarts.eq(restarts << 1 | receiver.hello)
        m.d.comb += self.restart.eq(restarts.any())
        passes, waits = taken_apart.o.valid & ~self.restart, taken_apart.o.valid & ~taken_apart.o.ready
        taken: Value = sender.i.ready
        if self.checked:
            held, delays = self._hold_unchecked(m, taken_apart, sender)
            passes, waits, taken = passes & ~held, (waits & ~held) | delays, taken & ~held
        m.d.comb += [
            decoder.byte.eq(self.byte),
            decoder.strobe.eq(self.strobe),
            receiver.byte.eq(decoder.o_byte),
            receiver.strobe.eq(decoder.o_strobe),
            receiver.end.eq(decoder.end),
            receiver.whole.eq(decoder.whole),
            receiver.at_start.eq(beats.at_start),
            sender.last.eq(taken_apart.last),
            encoder.last.eq(sender.o_last),
            times.begins.eq(beats.begins),
            times.ends.eq(taken_apart.ends),
            times.waits.eq(waits),
            times.passes.eq(taken_apart.passes),
            taken_apart.trailer.eq(times.byte),
            taken_apart.trailer_last.eq(times.last),
        ]
        for name in ("hello", "ack", "again", "taken", "missed", "unknown", "acked", "expected", "credit", "kind"):
            m.d.comb += getattr(sender, name).eq(getattr(receiver, name))
        if link.load:
            self._load(m, link.load, receiver, sender, decoder)
        connect(m, receiver.o, beats.i)
        # The sender has begun anew one cycle before what makes its bytes does: a byte from before would be the first
        # one of the new session.
        m.d.comb += [
            sender.i.payload.eq(taken_apart.o.payload),
            sender.i.valid.eq(passes),
            taken_apart.o.ready.eq(taken),
        ]
        connect(m, sender.o, encoder.i)
        connect(m, encoder.o, flipped(self.o))
        for side, adapter in ((link.inputs, beats), (link.outputs, taken_apart)):
            for port in side:
                for part in ("payload", "valid", "ready"):
                    name = f"{port.name}_{part}"
                    mine, its = getattr(self, name), getattr(adapter, name)
                    drives = adapter.signature.members[name].flow == Out
                    m.d.comb += mine.eq(its) if drives else its.eq(mine)
        return m

    def _hold_unchecked(self, m: Module, taken_apart: BytesFromBeats, sender: LinkSender) -> tuple[Value, Value]:
        """Hold the last byte of a frame until the pass with its weights was good, and for ever where one was bad.

        A pass is a frame's, and the reader may be some passes ahead.

        Returns:
            (whether it is held, whether the network has waited for that).
        """
        good, ahead = Signal(PASSES_AHEAD_BITS), Signal()  # passes that were good and whose frames have not left
        begun, held, delays = Signal(), Signal(), Signal()
        leaves = taken_apart.o.valid & taken_apart.o.ready & taken_apart.last
        offered = reduce(or_, (getattr(self, f"{port.name}_valid") for port in self.link.outputs))
        m.d.comb += [
            ahead.eq(good != 0),
            held.eq(taken_apart.last & (~ahead | self.damaged)),
            sender.damaged.eq(self.damaged),
        ]
        m.d.sync += [
            good.eq(good + (self.pass_begins & begun) - leaves),
            begun.eq(begun | self.pass_begins),
            delays.eq(held & (offered | delays)),
        ]
        with m.If(self.restart):
            m.d.sync += [good.eq(0), begun.eq(0), delays.eq(0)]
        with m.If(self.pass_bad):
            m.d.sync += self.damaged.eq(1)
        return held, delays

    def _load(
        self, m: Module, area: LoadArea, receiver: LinkReceiver, sender: LinkSender, decoder: CobsDecoder
    ) -> None:
        """Add the loader between the receiver and the bus."""
        m.submodules.loader = loader = ContentsLoader(area)
        m.d.comb += [
            loader.byte.eq(decoder.o_byte),
            loader.strobe.eq(receiver.load),
            loader.end.eq(decoder.end),
            loader.taken.eq(receiver.taken),
            loader.loads.eq(receiver.loads),
            loader.commit.eq(receiver.commit),
            loader.restart.eq(receiver.hello),
            receiver.loading.eq(loader.loading),
            sender.loads.eq(receiver.loads),
            sender.loading.eq(loader.loading),
            loader.index.eq(sender.index),
            sender.digest.eq(loader.digest),
            self.load_address.eq(loader.address),
            self.load_word.eq(loader.word),
            self.load_write.eq(loader.write),
        ]
