"""Which element each lane of a rearranged beat takes: numbers in tables, decided at elaboration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from amaranth.hdl import Cat, Const, Module, Value

from onnx_hw_rtl.parts.rom import Rom
from onnx_hw_rtl.streams.engine import delayed

__all__ = ["FILL", "UNUSED", "LoopTable", "Selects", "side_by_side"]

FILL, UNUSED = -1, -2
"""Instead of a stored lane: the lane gets the constant; the lane is behind the last channel of its pixel."""


class LoopTable(Rom):
    """Deeper than other memories before it takes a block: it is narrow."""

    DEEPEST_IN_LOGIC = 256


class Selects:
    """Which element each lane takes, by operation, as numbers that the tables of the loops hold.

    Lanes that change together share a number. If one loop alone decides, its table holds the numbers; if more do, each
    table says of which *kind* a turn is, and a further table has the numbers for every combination of kinds.

    Args:
        takes: (operations, lanes) stored lane, FILL or UNUSED.
        loops: count of every loop.

    Attributes:
        words: per loop, (bits, one word per turn) to be put into its table.
    """

    def __init__(self, takes: np.ndarray, loops: dict[str, int]) -> None:
        which = np.array(_numbered(takes)).reshape(tuple(loops.values()))
        self.patterns = takes[np.unique(which, return_index=True)[1]]
        self._number_lanes()
        numbers = [side_by_side([field[k] for field in self.fields], self.widths) for k in range(len(self.patterns))]
        kinds = [self._kinds(which, axis) for axis in range(3)]
        self.kind_bits = [max(kind).bit_length() for kind in kinds]
        self.words = {loop: (bits, kind) for loop, bits, kind in zip(loops, self.kind_bits, kinds, strict=True)}
        self.combined: list[int] | None = None
        deciding = [axis for axis, bits in enumerate(self.kind_bits) if bits]
        if len(deciding) == 1:
            (axis,) = deciding
            line = np.moveaxis(which, axis, 0).reshape(len(kinds[axis]), -1)[:, 0]
            self.words[list(loops)[axis]] = (sum(self.widths), [numbers[k] for k in line.tolist()])
        elif deciding:
            self.combined = self._combine(which, kinds, numbers)

    def _number_lanes(self) -> None:
        """``fields``: distinct ways to number the patterns; ``field_of``: which of them a lane has."""
        self.fields: list[tuple[int, ...]] = []
        self.field_of: list[int | None] = []
        self.stands_for: list[list[int]] = []
        for column in self.patterns.T.tolist():
            distinct = list(dict.fromkeys(column))
            if len(set(distinct) - {UNUSED}) <= 1:
                self.field_of.append(None)
                self.stands_for.append([taken for taken in distinct if taken != UNUSED])
                continue
            numbered = tuple(distinct.index(taken) for taken in column)
            if numbered not in self.fields:
                self.fields.append(numbered)
            self.field_of.append(self.fields.index(numbered))
            self.stands_for.append(distinct)
        self.widths = [max(numbered).bit_length() for numbered in self.fields]

    def _kinds(self, which: np.ndarray, axis: int) -> list[int]:
        """Per turn of a loop, a number that is the same for turns with the same patterns throughout."""
        turns = np.moveaxis(which, axis, 0).reshape(which.shape[axis], -1)
        return _numbered(turns) if self.fields else [0] * len(turns)

    def _combine(self, which: np.ndarray, kinds: list[list[int]], numbers: list[int]) -> list[int]:
        """The numbers for every combination of kinds, the inner loop's in the lowest bits."""
        words = [0] * (1 << sum(self.kind_bits))
        turns = [{kind: turn for turn, kind in enumerate(kinds[axis])} for axis in range(3)]
        for combination in product(*(sorted(turn) for turn in turns)):
            index = side_by_side(combination[::-1], self.kind_bits[::-1])
            words[index] = numbers[which[tuple(turns[axis][kind] for axis, kind in enumerate(combination))]]
        return words

    def resolve(self, m: Module, answers: list[Value]) -> Value:
        """Stage 6 from stage 2: all numbers side by side."""
        together = Cat(*reversed(answers))
        if self.combined is None:
            return delayed(m, together, 4, "select")
        m.submodules.select_table = table = LoopTable(sum(self.widths), self.combined)
        m.d.comb += table.addr.eq(together)
        return delayed(m, table.data, 4 - Rom.LATENCY, "select")

    def of_lane(self, chosen: Value, lane: int) -> tuple[Value, Sequence[int]]:
        """A lane's number, and what each number stands for."""
        field = self.field_of[lane]
        if field is None:
            return Const(0, 1), self.stands_for[lane]
        at = sum(self.widths[:field])
        return chosen[at : at + self.widths[field]], self.stands_for[lane]


def _numbered(rows: np.ndarray) -> list[int]:
    """The same number for the same rows, counted from 0 in the order of their first appearance."""
    numbers: dict[bytes, int] = {}
    return [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]


def side_by_side(fields: Sequence[int], widths: Sequence[int]) -> int:
    """One word, the first field in the lowest bits; fields without a width are left out."""
    word, at = 0, 0
    for value, width in zip(fields, widths, strict=True):
        word |= (value << at) if width else 0
        at += width
    return word
