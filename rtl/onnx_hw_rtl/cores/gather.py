"""Selection of the element for each lane of a rearranged beat: numbers in tables, computed at elaboration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from amaranth.hdl import Cat, Const, Module, Value

from onnx_hw_rtl.parts.rom import Rom
from onnx_hw_rtl.streams.engine import delayed

FILL, UNUSED = -1, -2
"""Codes instead of a stored lane: FILL for a lane that gets the constant, UNUSED for a lane behind the last channel of
its pixel.
"""


class LoopTable(Rom):
    """Memory that stays in look-up tables up to a greater depth than others, because it is narrow."""

    MAX_WORDS_IN_LOGIC = 256


class LaneSelection:
    """Choice of the element for each lane and operation, as numbers that the tables of the loops hold.

    Lanes that change together share a number. If one loop alone decides, its table holds the numbers. If several
    decide, the table of each loop holds the *kind* of each turn, and a further table holds the numbers for every
    combination of kinds.

    Args:
        takes: (operations, lanes) stored lane, FILL or UNUSED.
        loops: count of every loop.

    Attributes:
        words: for each loop, (bits, one word per turn) for its table.
    """

    def __init__(self, takes: np.ndarray, loops: dict[str, int]) -> None:
        which = np.array(_number_rows(takes)).reshape(tuple(loops.values()))
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
        """Set ``fields``, the distinct ways to number the patterns, and ``field_of``, the one that each lane uses."""
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
        """Return a number for each turn of a loop. Turns with the same patterns throughout have the same number."""
        turns = np.moveaxis(which, axis, 0).reshape(which.shape[axis], -1)
        return _number_rows(turns) if self.fields else [0] * len(turns)

    def _combine(self, which: np.ndarray, kinds: list[list[int]], numbers: list[int]) -> list[int]:
        """Return the numbers for every combination of kinds, the kind of the inner loop in the lowest bits."""
        words = [0] * (1 << sum(self.kind_bits))
        turns = [{kind: turn for turn, kind in enumerate(kinds[axis])} for axis in range(3)]
        for combination in product(*(sorted(turn) for turn in turns)):
            index = side_by_side(combination[::-1], self.kind_bits[::-1])
            words[index] = numbers[which[tuple(turns[axis][kind] for axis, kind in enumerate(combination))]]
        return words

    def resolve(self, m: Module, answers: list[Value]) -> Value:
        """Return all numbers side by side, in stage 6, from the answers of stage 2."""
        together = Cat(*reversed(answers))
        if self.combined is None:
            return delayed(m, together, 4, "select")
        m.submodules.select_table = table = LoopTable(sum(self.widths), self.combined)
        m.d.comb += table.addr.eq(together)
        return delayed(m, table.data, 4 - Rom.LATENCY, "select")

    def of_lane(self, chosen: Value, lane: int) -> tuple[Value, Sequence[int]]:
        """Return a lane's number, and the stored lane that each number stands for."""
        field = self.field_of[lane]
        if field is None:
            return Const(0, 1), self.stands_for[lane]
        at = sum(self.widths[:field])
        return chosen[at : at + self.widths[field]], self.stands_for[lane]


def _number_rows(rows: np.ndarray) -> list[int]:
    """Number the rows, from 0 in the order of their first appearance. Equal rows have the same number."""
    numbers: dict[bytes, int] = {}
    return [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]


def side_by_side(fields: Sequence[int], widths: Sequence[int]) -> int:
    """Pack fields into one word, the first field in the lowest bits. Fields without a width are left out."""
    word, at = 0, 0
    for value, width in zip(fields, widths, strict=True):
        word |= (value << at) if width else 0
        at += width
    return word
