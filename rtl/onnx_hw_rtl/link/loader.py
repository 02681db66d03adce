"""ContentsLoader of memories: bytes of packets that carry contents go to the bus of all memories that can be loaded.

The first packet, a ``LOAD`` without bytes, begins: a packet whose type is damaged on the wire cannot change a memory
before. The bytes come in the order of their addresses. They are written as they come, before the CRC of their packet
is known; those of a damaged packet are written again by the packet that takes its place. Until the last packet,
``COMMIT``, has come, the chip says that its contents are missing, and takes no frames.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.link import LOADED_DIGEST, LoadArea

__all__ = ["ContentsLoader"]

_CRC_BYTES = 2


class ContentsLoader(Component):
    """Writer of the bytes of packets into memories.

    Ports:
        byte, strobe: bytes of a packet behind its header, its CRC included, two cycles or more apart.
        taken, loads, commit: the packet ends, was right and the one that was expected; it is a ``LOAD`` or a
            ``COMMIT``; it is a ``COMMIT``.
        end: the packet ends.
        restart: the host begins anew, with the first byte.
        loading: a ``LOAD`` has come, and no ``COMMIT`` since.
        address, word, write: the bus, see ``onnx_hw_rtl.parts.constant_memory.LoadBus``.
        index, digest: a byte of the digest of what is loaded, the last one at index 0, one cycle later.
    """

    def __init__(self, area: LoadArea) -> None:
        self.area = area
        super().__init__(
            {
                **{name: In(1) for name in ("strobe", "end", "taken", "loads", "commit", "restart")},
                "byte": In(8),
                "index": In(4),
                "loading": Out(1),
                "address": Out(area.address_bits),
                "word": Out(8 * area.word_bytes),
                "write": Out(1),
                "digest": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        following, sure = (Signal(self.area.address_bits, name=name) for name in ("following", "sure"))
        write = Signal()
        m.d.comb += write.eq(self.strobe & ~following.all())  # noise without end does not come round to the beginning
        m.d.sync += self.write.eq(write)
        with m.If(write):
            m.d.sync += [
                self.word.eq(Cat(self.word[8:], self.byte)),
                self.address.eq(following),
                following.eq(following + 1),
            ]
        with m.If(self.end):
            with m.If(self.taken & self.loads & self.loading):
                m.d.sync += [sure.eq(following - _CRC_BYTES), following.eq(following - _CRC_BYTES)]
            with m.Else():
                m.d.sync += following.eq(sure)
        with m.If(self.taken & self.loads):
            m.d.sync += self.loading.eq(~self.commit)
        with m.If(self.restart):
            m.d.sync += [following.eq(0), sure.eq(0)]
        self._keep_digest(m)
        return m

    def _keep_digest(self, m: Module) -> None:
        """Keep the bytes behind the area, which are its digest."""
        bits = (LOADED_DIGEST - 1).bit_length()
        # In block RAM, whose first contents the gate models know; they know none of memories in look-up tables.
        m.submodules.loaded = stored = memory.Memory(
            shape=8, depth=LOADED_DIGEST, init=self.area.digest, attrs={"ram_style": "block"}
        )
        write_port, read_port = stored.write_port(), stored.read_port()
        m.d.comb += [
            write_port.addr.eq(self.address[:bits]),
            write_port.data.eq(self.word[-8:]),
            write_port.en.eq(self.write & (self.address[bits:] == self.area.size >> bits)),
            read_port.addr.eq(~self.index),
            self.digest.eq(read_port.data),
        ]
