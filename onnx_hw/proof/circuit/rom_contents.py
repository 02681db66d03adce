"""Weights in the block RAMs of a chip's netlist, decoded and compared with the words that golden multiplies by."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble import module_names
from onnx_hw.design import Design
from onnx_hw.exact.integers import Int

if TYPE_CHECKING:
    from onnx_hw_sim.gates.netlist import Cell
    from onnx_hw_sim.gates.parts import Stored

_BLOCK = re.compile(r"design\.(?P<core>[^.]+)\.core\.weights(?P<rom>\d+)\.block(?P<bank>\d+)_(?P<column>\d+)")


@dataclass(frozen=True)
class RomContents:
    """What was decoded.

    Attributes:
        blocks: block RAMs that hold weights.
        weights: of them, compared.
        wrong: of those.
        difference: the first one in words, or empty.
    """

    blocks: int
    weights: int
    wrong: int
    difference: str


def decode(design: Design, cells: Sequence[Cell], stored: Mapping[str, Stored]) -> RomContents:
    """All weights that lie in block RAMs placed by hand.

    Args:
        stored: by kind of cell, how it is read.
    """
    modules = module_names(design)
    roms: dict[str, dict[int, dict[tuple[int, int], Cell]]] = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        place = _BLOCK.fullmatch(cell.name) if cell.kind in stored else None
        if place is not None:
            roms[place["core"]][int(place["rom"])][int(place["bank"]), int(place["column"])] = cell
    blocks = weights = wrong = 0
    difference = ""
    for node in design.network.nodes:
        constants = node.operator.constant_words(design.folding(node))
        found = roms.get(modules[node.name])
        if constants is None or not found:
            continue
        words, kind = constants
        for lanes, seen, name in _lanes(found, stored, len(words), kind):
            expected = words[:, lanes]
            unequal = np.argwhere(seen != expected)
            weights, wrong = weights + seen.size, wrong + len(unequal)
            if len(unequal) and not difference:
                word, lane = map(int, unequal[0])
                difference = (
                    f"weight {lanes.start + lane} of word {word} of {node.name}: golden {expected[word, lane]}, "
                    f"netlist {seen[word, lane]}, in {name}"
                )
        blocks += sum(map(len, found.values()))
    return RomContents(blocks, weights, wrong, difference)


def _lanes(
    roms: Mapping[int, Mapping[tuple[int, int], Cell]], stored: Mapping[str, Stored], depth: int, kind: Int
) -> list[tuple[slice, np.ndarray, str]]:
    """Per ROM: which lanes it holds, (depth, lanes) integers, and the name of its first block.

    Every ROM but the last one has equally many lanes; the last one may be made of logic, and is not here then.
    """
    found = []
    each = None
    for number, blocks in sorted(roms.items()):
        columns = 1 + max(column for _, column in blocks)
        banks = 1 + max(bank for bank, _ in blocks)
        words: list[int] = []
        width = 0
        for bank in range(banks):
            parts = [stored[blocks[bank, c].kind](blocks[bank, c]) for c in range(columns)]
            width = sum(bits for _, bits in parts)
            at = np.cumsum([0, *(bits for _, bits in parts)]).tolist()
            rows = zip(*(part for part, _ in parts), strict=True)
            words += [sum(word << low for word, low in zip(row, at, strict=False)) for row in rows]
        lanes = width // kind.bits
        each = lanes if each is None else each
        values = np.array(
            [[word >> kind.bits * k & (1 << kind.bits) - 1 for k in range(lanes)] for word in words[:depth]]
        )
        if kind.signed:
            values -= (values >> kind.bits - 1) << kind.bits
        found.append((slice(number * each, number * each + lanes), values, blocks[0, 0].name))
    return found
