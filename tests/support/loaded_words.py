"""A network behind a link whose results are words of memories that the host loads."""

from __future__ import annotations

import random
from collections.abc import Sequence

from amaranth.hdl import Array, Module, Signal
from amaranth.lib.wiring import Component, In, Out

from onnx_hw_link.contents import Contents
from onnx_hw_link.link import LOAD_UNIT, LOADED_DIGEST, MOST_PAYLOAD, Link, LinkPort, LoadArea
from onnx_hw_rtl.parts.constant_memory import LoadBus, LoadedMemory, LoadPlace

Shape = tuple[int, int]
"""(bits of a word, words) of a memory."""


def places_of(shapes: Sequence[Shape]) -> tuple[list[LoadPlace], LoadArea]:
    """Return the places of memories, the largest of which come first, and the area that they take."""
    places, base = [], 0
    for bits, words in shapes:
        stride = 1 << (-(-bits // 8) - 1).bit_length()
        places.append(LoadPlace(base, stride))
        base += stride << max(1, (words - 1).bit_length())
    size = -(-base // LOAD_UNIT) * LOAD_UNIT
    address_bits = (size + LOADED_DIGEST + MOST_PAYLOAD).bit_length()
    return places, LoadArea(size, address_bits, max(place.stride for place in places))


def drawn_words(shapes: Sequence[Shape], seed: int) -> list[list[int]]:
    """Return random words of all memories."""
    source = random.Random(seed)
    return [[source.getrandbits(bits) for _ in range(words)] for bits, words in shapes]


def contents_of(words: Sequence[Sequence[int]], places: Sequence[LoadPlace], area: LoadArea) -> Contents:
    """Return the bytes of all memories."""
    data = bytearray(area.size)
    for its_words, place in zip(words, places, strict=True):
        for k, word in enumerate(its_words):
            at = place.base + k * place.stride
            data[at : at + place.stride] = word.to_bytes(place.stride, "little")
    return Contents.of(bytes(data))


def link_of(shapes: Sequence[Shape], area: LoadArea) -> Link:
    """Return the link: a frame is the address of a word, a result that word of every memory, one behind the other."""
    ports = (LinkPort("a", 1, 1, 16, False),), (LinkPort("b", len(shapes), 1, max(bits for bits, _ in shapes), False),)
    return Link(bytes(range(16)), *ports, 10**6, load=area)


class LoadedWords(Component):
    """The network: it reads the word of an address in each memory, and sends them one after the other."""

    def __init__(self, link: Link, words: Sequence[Sequence[int]], shapes: Sequence[Shape], places: list[LoadPlace]):
        assert link.load is not None
        self.words, self.shapes, self.places = words, shapes, places
        super().__init__(
            {
                "a_payload": In(16),
                "b_payload": Out(link.outputs[0].bits),
                "a_valid": In(1),
                "a_ready": Out(1),
                "b_valid": Out(1),
                "b_ready": In(1),
                "load_address": In(link.load.address_bits),
                "load_word": In(8 * link.load.word_bytes),
                "load_write": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, read = LoadBus(self.load_address, self.load_word, self.load_write), []
        address, waits, gone = Signal(16), Signal(4), Signal(range(len(self.shapes) + 1), init=len(self.shapes))
        for k, ((bits, _), place) in enumerate(zip(self.shapes, self.places, strict=True)):
            m.submodules[f"memory{k}"] = stored = LoadedMemory(bits, self.words[k], bus, place)
            m.d.comb += stored.addr.eq(address)
            read.append(stored.data)
        idle, there = gone == len(self.shapes), waits.all()
        m.d.comb += [self.a_ready.eq(idle), self.b_valid.eq(~idle & there), self.b_payload.eq(Array(read)[gone])]
        with m.If(idle & self.a_valid):
            m.d.sync += [address.eq(self.a_payload), gone.eq(0), waits.eq(0)]
        with m.Elif(~there):
            m.d.sync += waits.eq(waits + 1)
        with m.If(self.b_valid & self.b_ready):
            m.d.sync += gone.eq(gone + 1)
        return m


def result_of(words: Sequence[Sequence[int]], link: Link, address: int) -> bytes:
    """Return what the network makes of an address."""
    width = link.outputs[0].bits
    bits = sum(its_words[address] << k * width for k, its_words in enumerate(words))
    return bits.to_bytes(link.output_bytes, "little")
