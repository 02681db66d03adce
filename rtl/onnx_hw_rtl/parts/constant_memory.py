"""Memories of a core's constants, and single numbers: read-only ones, or ones that are loaded at run time.

The bytes of a loaded word come on one bus for all memories of a chip, the lowest byte first, each with its address. A
word of n bytes begins at a multiple of its *stride*, the power of two from n on, and is written with its last byte, the
one before the next stride. The bytes of a word meet in a register at the end of the bus (``onnx_hw_rtl.link.loader``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from amaranth.hdl import Const, Module, Shape, Signal, Value
from amaranth.lib import memory
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_rtl.parts.rom import Rom

LOADED_BITS = 128
"""Greatest width, in bits, of a memory whose words are loaded."""

LOADED_BLOCK_BITS = 16
"""Greatest width, in bits, of one of the memories that make it up. Wider ones become block RAMs of ECP5 with 36 bits.
Which output pins have the lower half of such a word is not certain: DOA by yosys (``lattice/brams_map_16kd.v``), DOB by
nextpnr's own conversion of PDPW16KD (``ecp5/pack.cc``). At 18 bits both agree."""


@dataclass(frozen=True)
class LoadPlace:
    """Place of a memory, or of a number, among the bytes that are loaded.

    Attributes:
        base: address of the first byte, a multiple of the size of the region.
        stride: bytes from a word to the next one, a power of two.
    """

    base: int
    stride: int


@dataclass(frozen=True, eq=False)
class LoadBus:
    """Bus that all memories of a chip are loaded from.

    Attributes:
        address: address of the byte that came last.
        word: the bytes that came last, the latest one at the top.
        write: high for one cycle for each byte; address and word stay for at least another one.
    """

    address: Value
    word: Value
    write: Value


class LoadedMemory(Component):
    """Memory like ``Rom``, with the same latency, whose words can be written from a bus.

    Args:
        width: bits per word.
        words: the words after the chip's configuration.
        bus, place: where other words come from.

    Ports:
        addr: the address. Beyond the last word the data may be anything.
        data: the word, unsigned.
    """

    LATENCY = Rom.LATENCY

    def __init__(self, width: int, words: Sequence[int], bus: LoadBus, place: LoadPlace) -> None:
        if not 1 <= width <= 8 * place.stride:
            raise ValueError(f"words must have 1 .. {8 * place.stride} bits, not {width}")
        self.width, self.bus, self.place = width, bus, place
        self.words = tuple(int(word) & ((1 << width) - 1) for word in words)
        super().__init__({"addr": In(max(1, (len(words) - 1).bit_length())), "data": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, (base, stride) = self.bus, (self.place.base, self.place.stride)
        below = (stride - 1).bit_length()  # bits of an address within a word
        region = below + len(self.addr)
        write, first = Signal(), len(bus.word) - 8 * stride
        here = (bus.address[:below] == stride - 1) & (bus.address[region:] == base >> region)
        m.d.sync += write.eq(bus.write & here)
        for at in range(0, self.width, LOADED_BLOCK_BITS):
            bits = min(LOADED_BLOCK_BITS, self.width - at)
            part = [word >> at & (1 << bits) - 1 for word in self.words]
            m.submodules[f"loaded{at}"] = stored = memory.Memory(
                shape=bits, depth=max(2, len(part)), init=part, attrs={"ram_style": "block"}
            )
            write_port, read_port = stored.write_port(), stored.read_port()
            word = Signal(bits, name=f"word{at}", reset_less=True)
            m.d.sync += word.eq(read_port.data)
            m.d.comb += [
                write_port.addr.eq(bus.address[below:region]),
                write_port.data.eq(bus.word[first + at : first + at + bits]),
                write_port.en.eq(write),
                read_port.addr.eq(self.addr),
                self.data[at : at + bits].eq(word),
            ]
        return m


class LoadedRegister(Component):
    """Number that can be written from a bus: what a core has once, such as a zero point.

    Args:
        width: bits of the number.
        value: the number after the chip's configuration; a reset does not bring it back.
        bus, place: where other numbers come from.

    Ports:
        data: the number, unsigned.
    """

    def __init__(self, width: int, value: int, bus: LoadBus, place: LoadPlace) -> None:
        if not 1 <= width <= 8 * place.stride:
            raise ValueError(f"a number must have 1 .. {8 * place.stride} bits, not {width}")
        self.width, self.value, self.bus, self.place = width, value & (1 << width) - 1, bus, place
        super().__init__({"data": Out(width)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, (base, stride) = self.bus, (self.place.base, self.place.stride)
        write, first = Signal(), len(bus.word) - 8 * stride
        number = Signal(self.width, name="loaded_number", init=self.value, reset_less=True)
        m.d.sync += write.eq(bus.write & (bus.address == Const(base + stride - 1, len(bus.address))))
        with m.If(write):
            m.d.sync += number.eq(bus.word[first : first + self.width])
        m.d.comb += self.data.eq(number)
        return m


class FixedConstants:
    """Constants of a core in read-only memories."""

    loaded: ClassVar[bool] = False

    def memory(
        self,
        m: Module,
        name: str,
        width: int,
        words: Sequence[int],
        *,
        in_logic: bool | None = None,
        in_block: bool = False,
    ) -> Rom | LoadedMemory:
        """Add a memory to a module as the submodule of a name, and return it."""
        m.submodules[name] = rom = Rom(width, words, in_logic=in_logic, in_block=in_block)
        return rom

    def number(self, m: Module, name: str, shape: Shape, value: int) -> Value:
        """Return a number of the core, which is a constant where none of its name is loaded."""
        return Const(value, shape)


@dataclass(frozen=True, eq=False)
class LoadedConstants(FixedConstants):
    """Constants of a core in memories that are loaded.

    Attributes:
        bus: where their words come from.
        places: the place of each memory, by its name within the core.
    """

    bus: LoadBus
    places: Mapping[str, LoadPlace]

    loaded: ClassVar[bool] = True

    def memory(
        self,
        m: Module,
        name: str,
        width: int,
        words: Sequence[int],
        *,
        in_logic: bool | None = None,
        in_block: bool = False,
    ) -> Rom | LoadedMemory:
        """Add a memory to a module as the submodule of a name, and return it: it lies in block RAM in any case."""
        m.submodules[name] = stored = LoadedMemory(width, words, self.bus, self.places[name])
        return stored

    def number(self, m: Module, name: str, shape: Shape, value: int) -> Value:
        """Return a number of the core; add the register that holds it to a module, where it is loaded."""
        if name not in self.places:
            return super().number(m, name, shape, value)
        m.submodules[name] = register = LoadedRegister(shape.width, value, self.bus, self.places[name])
        return register.data.as_signed() if shape.signed else register.data
