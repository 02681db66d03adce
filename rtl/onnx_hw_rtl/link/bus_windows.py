"""Windows of memory for frames: a host writes or reads a frame at any of its words while the previous frame passes."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import memory, stream
from amaranth.lib.wiring import Component, In, Out

__all__ = ["InputWindow", "OutputWindow"]

_WORD_BYTES = 4


class InputWindow(Component):
    """Window in which a host writes a frame. Once the frame is sent, the window is free for the next one.

    Args:
        size: bytes of a frame.
        window: bytes of the window, a power of two.

    Ports:
        address, data, lanes: a word, and which of its bytes are written.
        send: the window holds a whole frame; ignored unless ``free``.
        free: the window may be written.
        o: the frames, byte by byte.
    """

    def __init__(self, size: int, window: int) -> None:
        self.size, self.window = size, window
        super().__init__(
            {
                "address": In(range(window // _WORD_BYTES)),
                "data": In(8 * _WORD_BYTES),
                "lanes": In(_WORD_BYTES),
                "send": In(1),
                "free": Out(1),
                "o": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = ram = memory.Memory(shape=8 * _WORD_BYTES, depth=2 * self.window // _WORD_BYTES, init=[])
        write, read = ram.write_port(granularity=8), ram.read_port()
        sent, passed = Signal(2), Signal(2)  # numbers of frames, modulo 4
        index, shown = Signal(range(self.window)), Signal()
        full, waiting, taken = Signal(), Signal(), Signal()
        m.d.comb += [
            full.eq(sent == passed ^ 0b10),
            waiting.eq(sent != passed),
            self.free.eq(~full),
            write.addr.eq(Cat(self.address, sent[0])),
            write.data.eq(self.data),
            write.en.eq(self.lanes & self.free.replicate(_WORD_BYTES)),
            read.addr.eq(Cat(index[2:], passed[0])),
            read.en.eq(1),
            self.o.payload.eq(read.data.word_select(index[:2], 8)),
            self.o.valid.eq(shown),
            taken.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += shown.eq(waiting & ~taken)  # the memory needs a cycle
        with m.If(self.send & self.free):
            m.d.sync += sent.eq(sent + 1)
        with m.If(taken):
            m.d.sync += index.eq(index + 1)
            with m.If(index == self.size - 1):
                m.d.sync += [index.eq(0), passed.eq(passed + 1)]
        return m


class OutputWindow(Component):
    """Window in which a host reads the results of a frame. Once they are taken, the window shows the next ones.

    Args:
        window: bytes of the window, a power of two.

    Ports:
        i, last: the results, byte by byte; ``last`` marks the last byte of a frame.
        address, data: a word's address, and the word one cycle later.
        ready: the window holds the results of a frame.
        take: the results have been read; ignored unless ``ready``.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "last": In(1),
                "address": In(range(window // _WORD_BYTES)),
                "data": Out(8 * _WORD_BYTES),
                "ready": Out(1),
                "take": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = ram = memory.Memory(shape=8 * _WORD_BYTES, depth=2 * self.window // _WORD_BYTES, init=[])
        write, read = ram.write_port(granularity=8), ram.read_port()
        come, taken = Signal(2), Signal(2)  # numbers of frames, modulo 4
        index, written = Signal(range(self.window)), Signal()
        m.d.comb += [
            self.i.ready.eq(come != taken ^ 0b10),
            written.eq(self.i.valid & self.i.ready),
            write.addr.eq(Cat(index[2:], come[0])),
            write.data.eq(self.i.payload.replicate(_WORD_BYTES)),
            write.en.eq(written << index[:2]),
            read.addr.eq(Cat(self.address, taken[0])),
            read.en.eq(1),
            self.data.eq(read.data),
            self.ready.eq(come != taken),
        ]
        with m.If(written):
            m.d.sync += index.eq(index + 1)
            with m.If(self.last):
                m.d.sync += [index.eq(0), come.eq(come + 1)]
        with m.If(self.take & self.ready):
            m.d.sync += taken.eq(taken + 1)
        return m
