"""Constants in block RAM, whatever their size, with no register behind them."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

IN_BLOCK = {"ram_style": "block", "rom_style": "block"}
"""Attributes of a memory that is to lie in block RAM where its size alone would not decide so."""


class BlockRom(Component):
    """Read-only memory in block RAM: ``data = words[addr]``, ``LATENCY`` cycles later; one word per cycle, no reset.

    Args:
        width: bits per word.
        words: unsigned integers.

    Ports:
        addr: the address. Beyond the last word the data may be anything.
        data: the word, unsigned.
    """

    LATENCY = 1

    def __init__(self, width: int, words: Sequence[int]) -> None:
        if any(word < 0 or word >> width for word in words):
            raise ValueError(f"every word must fit in {width} bits")
        self.width, self.words = width, tuple(words)
        super().__init__({"addr": In(max(1, (len(words) - 1).bit_length())), "data": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = rom = memory.Memory(
            shape=self.width, depth=len(self.words), init=self.words, attrs=IN_BLOCK
        )
        port = rom.read_port()
        m.d.comb += [port.addr.eq(self.addr), self.data.eq(port.data)]
        return m
