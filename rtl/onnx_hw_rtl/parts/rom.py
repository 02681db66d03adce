"""Read-only memory for weights and constants."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.parts.block_rom import IN_BLOCK
from onnx_hw_rtl.parts.fanout import spread
from onnx_hw_rtl.target import primitives_of


class Rom(Component):
    """Read-only memory: ``data = words[addr]``, ``LATENCY`` cycles later; one word per cycle, no reset.

    It consists of block RAMs with their own output register, whose clock-to-output time of 0.9 ns (on ECP5) leaves the
    rest of the cycle to the logic behind it (5.6 ns without the register). A memory of at most ``MAX_WORDS_IN_LOGIC``
    words is made of look-up tables, because a block RAM is at most 36 bits wide; so is a memory of at most
    ``MAX_BITS_BELOW_BLOCK`` bits.

    Args:
        width: bits per word.
        words: integers that fit in ``width`` bits, signed or not.
        in_logic: whether the memory is made of look-up tables; None lets its size decide. With ``BITS_IN_LOGIC`` bits
            it takes about the same share of a chip in look-up tables, 400 of them, as a block RAM is.
        in_block: whether the memory is made of block RAM, however small it is.

    Ports:
        addr: the address. Beyond the last word the data may be anything.
        data: the word, unsigned.
    """

    LATENCY = 2
    MAX_WORDS_IN_LOGIC = 32
    MAX_BITS_BELOW_BLOCK = 1024
    BITS_IN_LOGIC = 4608

    def __init__(
        self, width: int, words: Sequence[int], *, in_logic: bool | None = None, in_block: bool = False
    ) -> None:
        if width < 1 or not words:
            raise ValueError(f"a memory must have a bit and a word at least, not {len(words)} words of {width} bits")
        for index, word in enumerate(words):
            if not -(1 << (width - 1)) <= word < 1 << width:
                raise ValueError(f"every word must fit in {width} bits; word {index} is {word}")
        self.width = width
        small = len(words) <= self.MAX_WORDS_IN_LOGIC or width * len(words) <= self.MAX_BITS_BELOW_BLOCK
        self._in_logic = not in_block and (small if in_logic is None else in_logic)
        self._attributes = IN_BLOCK if in_block else {}
        self.words = tuple(int(word) & ((1 << width) - 1) for word in words)
        super().__init__({"addr": In(max(1, (len(words) - 1).bit_length())), "data": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        rom = primitives_of(platform).rom
        if rom and not self._in_logic:
            rom(m, self.words, self.addr, self.data)
        else:
            self._describe(m)
        return m

    def _describe(self, m: Module) -> None:
        if self._in_logic:  # delay the address, not the word: it has fewer bits
            for bits, waiting in spread(m, self.addr, self.width, "address"):
                part = [word >> bits.start & (1 << bits.stop - bits.start) - 1 for word in self.words]
                rom = memory.Memory(
                    shape=bits.stop - bits.start, depth=len(part), init=part, attrs={"rom_style": "logic"}
                )
                m.submodules[f"memory{bits.start}"] = rom
                port = rom.read_port()
                m.d.comb += [port.addr.eq(waiting), self.data[bits].eq(port.data)]
            return
        m.submodules.memory = rom = memory.Memory(
            shape=self.width, depth=len(self.words), init=self.words, attrs=self._attributes
        )
        port = rom.read_port()
        word = Signal(self.width, reset_less=True)
        m.d.sync += word.eq(port.data)
        m.d.comb += [port.addr.eq(self.addr), self.data.eq(word)]
