"""Map of the constants that are loaded into a circuit at run time: the place of every memory, and the bytes themselves.

Memories, and single numbers, lie one behind the other in a sequence of bytes, the largest first. A word of a memory
takes the fewest bytes that are a power of two, and a memory takes as many words as its address has values; so every
memory begins at a multiple of its size. Behind them all lies the digest of these bytes, with which the chip describes
what it holds.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.ops.rom_contents import LOADED_BITS, RomImage
from onnx_hw_link.link import LOAD_UNIT, LOADED_DIGEST, MOST_PAYLOAD, LoadArea


@dataclass(frozen=True, eq=False)
class LoadedRegion:
    """Region of one memory, or of a single number.

    Attributes:
        core: module of the memory's core.
        memory: name of the memory, or of the number, within the core.
        base: address of its first byte.
        stride: bytes from a word to the next one.
        words: words, unsigned, as Python's integers.
        bits: width of a word.
    """

    core: str
    memory: str
    base: int
    stride: int
    words: tuple[int, ...]
    bits: int


@dataclass(frozen=True, eq=False)
class LoadMap:
    """All regions of a design.

    Attributes:
        regions: in the order of their addresses.
    """

    regions: tuple[LoadedRegion, ...]

    @property
    def size(self) -> int:
        """Bytes of all regions, a multiple of ``LOAD_UNIT``."""
        if not self.regions:
            return 0
        last = self.regions[-1]
        return -(-(last.base + last.stride * _depth(len(last.words))) // LOAD_UNIT) * LOAD_UNIT

    @property
    def area(self) -> LoadArea:
        """Facts about these bytes for both ends of a link."""
        address_bits = (self.size + LOADED_DIGEST + MOST_PAYLOAD).bit_length()
        return LoadArea(self.size, address_bits, max(region.stride for region in self.regions), self.digest)

    @property
    def contents(self) -> bytes:
        """The bytes of all regions; 0 where there is no word."""
        data = bytearray(self.size)
        for region in self.regions:
            for k, word in enumerate(region.words):
                at = region.base + k * region.stride
                data[at : at + region.stride] = word.to_bytes(region.stride, "little")
        return bytes(data)

    @property
    def digest(self) -> bytes:
        """Digest of the contents."""
        return hashlib.sha256(self.contents).digest()[:LOADED_DIGEST]

    def by_core(self) -> Mapping[str, list[LoadedRegion]]:
        """Return the regions of every core."""
        found: dict[str, list[LoadedRegion]] = defaultdict(list)
        for region in self.regions:
            found[region.core].append(region)
        return found


def load_map(design: Design, modules: Mapping[str, str]) -> LoadMap:
    """Return the map of the constants of a design that can be loaded; it is empty where none can.

    Args:
        modules: module of each node.
    """
    found: list[tuple[str, str, tuple[int, ...], int]] = []
    for node in design.network.nodes:
        for name, (number, dtype) in node.operator.loaded_numbers.items():
            found.append((modules[node.name], name, (number & (1 << dtype.bits) - 1,), dtype.bits))
        if not node.operator.has_loaded_constants:
            continue
        for path, image in node.operator.memories(design.folding(node)).items():
            if image.loaded:
                found += [(modules[node.name], *piece) for piece in _pieces(path, image)]
    found.sort(key=lambda piece: -_stride(piece[3]) * _depth(len(piece[2])))
    regions, base = [], 0
    for core, memory, words, bits in found:
        regions.append(LoadedRegion(core, memory, base, _stride(bits), words, bits))
        base += _stride(bits) * _depth(len(words))
    return LoadMap(tuple(regions))


def _pieces(path: str, image: RomImage) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Yield (name, words, bits) of the parallel memories that make up one, as the circuit cuts it."""
    each = max(1, LOADED_BITS // image.bits) if image.pieces else 1
    lanes = image.words.shape[1]
    for k, first in enumerate(range(0, lanes, each)):
        part = image.words[:, first : first + each].astype(object) & (1 << image.bits) - 1
        places = np.array([1 << image.bits * j for j in range(part.shape[1])], dtype=object)
        words = tuple(int(word) for word in (part * places).sum(axis=1))
        yield (f"{path}{k}" if image.pieces else path), words, image.bits * part.shape[1]


def _stride(bits: int) -> int:
    """Return the bytes from a word to the next one."""
    return 1 << (-(-bits // 8) - 1).bit_length()


def _depth(words: int) -> int:
    """Return the number of words of a memory's address."""
    return 1 << max(1, (words - 1).bit_length())
