"""Constant tables. A block RAM answers late in its cycle: nothing stands between it and a register."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.delay_line import delayed

__all__ = ["Table"]

LARGEST_IN_LOGIC = 16


class Table(Component):
    """``data`` is ``words[index]``, ``LATENCY`` cycles later.

    Args:
        width: bits per word.
        words: unsigned integers; indices beyond the end read as don't care.
    """

    LATENCY = 2

    def __init__(self, width: int, words: Sequence[int]) -> None:
        if any(word < 0 or word >> width for word in words):
            raise ValueError(f"every word must fit in {width} bits")
        self.width, self.words = width, list(words)
        super().__init__({"index": In(range(max(2, len(words)))), "data": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if len(set(self.words)) == 1:
            m.d.comb += self.data.eq(self.words[0])
        elif len(self.words) <= LARGEST_IN_LOGIC:
            word = Signal(self.width, reset_less=True)
            with m.Switch(delayed(m, self.index, 1, "index")):
                for k, value in enumerate(self.words):
                    with m.Case(k):
                        m.d.sync += word.eq(value)
            m.d.comb += self.data.eq(word)
        else:
            m.submodules.rom = rom = memory.Memory(shape=self.width, depth=len(self.words), init=self.words)
            port = rom.read_port()
            m.d.comb += [port.addr.eq(Value.cast(self.index)), self.data.eq(delayed(m, port.data, 1, "word"))]
        return m
