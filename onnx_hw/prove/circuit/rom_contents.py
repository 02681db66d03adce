"""Contents of read-only memories in the block RAMs of a chip's netlist, compared with golden's constants (link 4).

Nothing is simulated: contents are read from the parameters of the cells, by the pins and nets that are connected, and
compared with the words that the operator says its core has there: weights, thresholds, tables, multipliers and addends.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import module_names
from onnx_hw.ir.design import Design
from onnx_hw.ops.rom_contents import RomImage

if TYPE_CHECKING:
    from onnx_hw_sim.gates.cell_models import Parts, Stored
    from onnx_hw_sim.gates.netlist import ChipCell, FlatNetlist
    from onnx_hw_sim.gates.read_only import ReadOnly

_PLACED = re.compile(r"(?:shell\.)?design\.(?P<core>[^.]+)\.core\.(?P<rom>.+)\.block(?P<bank>\d+)_(?P<column>\d+)")
"""Name of a block placed by a primitive: the bank of a memory's words, and the column of their bits."""

_MAPPED = re.compile(r"(?:shell\.)?design\.(?P<core>[^.]+)\.core\.(?P<rom>.+)\.memory(?:\..*)?")
"""Name of a block that synthesis made of a described memory."""

NAMES = re.compile(r"^core\.(?:.+\.)?(?:port__)?(?:addr|data)(?:\$\d+)?$")
"""Names of the nets of a described memory's ports, within a core."""

_ADDRESS = re.compile(r"\.(?:port__)?addr(?:\$\d+)?$")

_Lanes = tuple[str, int, np.ndarray, np.ndarray]
"""The path of a piece, its first lane, (words, lanes) integers, and a mask of those of their bits that somebody reads.
"""


@dataclass(frozen=True)
class RomContents:
    """Result of decoding.

    Attributes:
        blocks: block RAMs that hold constants and were decoded.
        of_blocks: number of read-only block RAMs.
        weights: compared constants: weights, thresholds, entries of tables, multipliers with their addends.
        wrong: number of wrong ones.
        difference: the first difference in words; empty without one.
    """

    blocks: int
    of_blocks: int
    weights: int
    wrong: int
    difference: str


def decode(design: Design, flat: FlatNetlist, parts: Parts, stored: Mapping[str, Stored]) -> RomContents:
    """Decode all constants of cores that lie in block RAMs.

    Args:
        flat: netlist with the nets of ``NAMES``.
        parts: parts of the same netlist.
        stored: function that reads a placed cell, by kind of cell.
    """
    from onnx_hw_sim.gates.read_only import ReadOnly

    modules, nets = module_names(design), ReadOnly(parts)
    placed = _placed(flat.cells, stored)
    mapped = _mapped(flat, nets)
    decoded: set[str] = set()
    compared = wrong = 0
    difference = ""
    for node in design.network.nodes:
        core = modules[node.name]
        if core not in placed and core not in mapped:
            continue
        for path, memory in node.operator.memories(design.folding(node)).items():
            found = [
                *_placed_lanes(placed.get(core, {}), path, memory, stored, decoded),
                *_mapped_lanes(mapped.get(core, {}), path, memory, nets, decoded),
            ]
            for piece, first, seen, mask in found:
                expected = _unsigned(memory.words[:, first : first + seen.shape[1]], memory.bits)
                unequal = np.argwhere((seen ^ expected) & mask)
                compared, wrong = compared + seen.size, wrong + len(unequal)
                if len(unequal) and not difference:
                    word, lane = map(int, unequal[0])
                    difference = (
                        f"{memory.what} {first + lane} of word {word} of {node.name}: golden "
                        f"{memory.words[word, first + lane]}, netlist {_as_lane(int(seen[word, lane]), memory)}, "
                        f"in design.{core}.core.{piece}"
                    )
    return RomContents(len(decoded), len(nets.blocks), compared, wrong, difference)


def _unsigned(words: np.ndarray, bits: int) -> np.ndarray:
    """Return words without sign, int64, or Python's integers where those are too narrow."""
    return (words.astype(object) if bits > 62 else words.astype(np.int64)) & (1 << bits) - 1


def _as_lane(value: int, memory: RomImage) -> int:
    return value - (1 << memory.bits) if memory.signed and value >> memory.bits - 1 else value


def _pieces(roms: Mapping[str, object], path: str, memory: RomImage) -> list[str]:
    """Return the paths of the parallel memories that make up one."""
    if not memory.pieces:
        return [path] if path in roms else []
    numbered = [rom for rom in roms if re.fullmatch(rf"{path}\d+", rom)]
    return sorted(numbered, key=lambda rom: int(rom.removeprefix(path)))


def _lanes(bits_of: Iterator[tuple[str, np.ndarray]], path: str, memory: RomImage) -> Iterator[_Lanes]:
    """Split the pieces of a memory into lanes.

    All pieces but the last one have the same number of lanes; the last one may be made of logic, and is then missing.

    Args:
        bits_of: per piece, (words, bits) of 0 and 1, or -1 where nobody reads.
    """
    each = None
    for rom, bits in bits_of:
        lanes = bits.shape[1] // memory.bits
        each = lanes if each is None else each
        first = int(rom.removeprefix(path)) * each if memory.pieces else 0
        lanes = min(lanes, memory.words.shape[1] - first)
        split = bits[:, : lanes * memory.bits].reshape(len(bits), lanes, memory.bits)
        yield rom, first, _number(split == 1, memory.bits), _number(split >= 0, memory.bits)


def _number(bits: np.ndarray, width: int) -> np.ndarray:
    """Return (..., width) bits as integers."""
    return (
        bits.astype(object if width > 62 else np.int64) << np.arange(width).astype(object if width > 62 else int)
    ).sum(-1)


# ---- placed by a primitive ------------------------------------------------------------------------------------------

_Placed = dict[str, dict[tuple[int, int], "ChipCell"]]
"""Blocks of each memory, by bank and column."""


def _placed(cells: Sequence[ChipCell], stored: Mapping[str, Stored]) -> dict[str, _Placed]:
    found: dict[str, _Placed] = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        place = _PLACED.fullmatch(cell.name) if cell.kind in stored else None
        if place is not None:
            found[place["core"]][place["rom"]][int(place["bank"]), int(place["column"])] = cell
    return found


def _placed_lanes(
    roms: _Placed, path: str, memory: RomImage, stored: Mapping[str, Stored], decoded: set[str]
) -> Iterator[_Lanes]:
    def bits() -> Iterator[tuple[str, np.ndarray]]:
        for rom in _pieces(roms, path, memory):
            blocks = roms[rom]
            decoded.update(cell.name for cell in blocks.values())
            banks, columns = (1 + max(place[k] for place in blocks) for k in range(2))
            yield (
                rom,
                np.concatenate(
                    [
                        np.concatenate(
                            [_bits(*stored[blocks[b, c].kind](blocks[b, c])) for c in range(columns)], axis=1
                        )
                        for b in range(banks)
                    ]
                )[: len(memory.words)],
            )

    return _lanes(bits(), path, memory)


def _bits(words: Sequence[int], width: int) -> np.ndarray:
    return (np.array(words, np.int64)[:, None] >> np.arange(width) & 1).astype(np.int8)


# ---- mapped by synthesis --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ports:
    """Nets of a memory: addresses that may be it, the likeliest first, and what it gives."""

    addresses: tuple[tuple[int, ...], ...]
    data: tuple[int, ...]


def _mapped(flat: FlatNetlist, nets: ReadOnly) -> dict[str, dict[str, _Ports]]:
    """Return the ports of mapped memories, by core and memory, of those whose nets still have names."""
    blocks: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in nets.blocks:
        place = _MAPPED.fullmatch(name)
        if place is not None:
            blocks[place["core"], place["rom"]].append(name)
    named: dict[str, list[tuple[str, tuple[int, ...]]]] = defaultdict(list)
    for name, found in flat.named.items():
        inner = name.removeprefix("shell.")
        named[inner.split(".", 2)[1]].append((inner, found))
    roms: dict[str, dict[str, _Ports]] = defaultdict(dict)
    for (core, rom), its_blocks in blocks.items():
        inside = f"design.{core}.core.{rom}."
        data = next((bits for name, bits in named[core] if name in (f"{inside}port__data", f"{inside}data")), None)
        needed = {net for block in its_blocks for net in nets.addressed_by(block)}
        addresses = [bits for name, bits in named[core] if _ADDRESS.search(name) and needed <= set(bits)]
        if data is not None and addresses:
            roms[core][rom] = _Ports(tuple(sorted(addresses, key=len)), data)
    return roms


def _mapped_lanes(
    roms: Mapping[str, _Ports], path: str, memory: RomImage, nets: ReadOnly, decoded: set[str]
) -> Iterator[_Lanes]:
    from onnx_hw_sim.gates.read_only import NotOfTheAddress

    def bits() -> Iterator[tuple[str, np.ndarray]]:
        for rom in _pieces(roms, path, memory):
            for address in roms[rom].addresses:
                try:
                    found, blocks = nets.words(address, roms[rom].data, len(memory.words))
                except NotOfTheAddress:
                    continue
                decoded.update(blocks)
                yield rom, found
                break

    return _lanes(bits(), path, memory)
