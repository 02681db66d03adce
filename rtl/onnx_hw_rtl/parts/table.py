"""Tables of constants. A block RAM answers late in its cycle, so nothing stands between it and a register."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.parts.delay_line import delayed

MAX_WORDS_IN_LOGIC = 16


class Table(Component):
    """Table of constants: ``data`` is ``words[index]``, ``LATENCY`` cycles later.

    Args:
        width: bits per word.
        words: unsigned integers. For an index beyond the end the data may be anything.
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
        elif len(self.words) <= MAX_WORDS_IN_LOGIC:
            word = Signal(self.width, reset_less=True)
            with m.Switch(delayed(m, self.index, 1, "index")):
                for k, value in enumerate(self.words):
                    with m.Case(k):
                        m.d.sync += word.eq(value)
            m.d.comb += self.data.eq(word)
        else:
            self._store(m)
        return m

    def _store(self, m: Module) -> None:
        """Store the words in a memory, and equal columns of bits only once. Synthesis cannot know that they are equal,
        nor use what follows from it.
        """
        columns = [sum((word >> bit & 1) << k for k, word in enumerate(self.words)) for bit in range(self.width)]
        never, always = 0, (1 << len(self.words)) - 1
        kept = [column for column in dict.fromkeys(columns) if column not in (never, always)]
        init = [sum((column >> k & 1) << place for place, column in enumerate(kept)) for k in range(len(self.words))]
        m.submodules.rom = rom = memory.Memory(shape=len(kept), depth=len(init), init=init)
        port = rom.read_port()
        word = delayed(m, port.data, 1, "word")
        m.d.comb += port.addr.eq(Value.cast(self.index))
        for bit, column in enumerate(columns):
            m.d.comb += self.data[bit].eq(column == always if column in (never, always) else word[kept.index(column)])
