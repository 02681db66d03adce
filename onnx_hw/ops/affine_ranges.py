"""Numbers of operations, turn by turn: what a loop nest does at which of its operations, in little memory.

A frame may have millions of operations, but row after row they do the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

ONE = np.zeros(1, dtype=np.int64)
ONE.flags.writeable = False


@dataclass(frozen=True, eq=False)
class LoopTurns:
    """``count`` turns of a loop: the numbers ``first + turn · step + pattern``; the pattern is int64, not empty."""

    first: int
    count: int
    step: int
    pattern: np.ndarray

    def __repr__(self) -> str:
        return f"{self.count} turns of {len(self.pattern)} from {self.first} in steps of {self.step}"


@dataclass(frozen=True, eq=False)
class AffineSequence:
    """Numbers that never fall, as turns of loops one after the other.

    >>> rows = AffineSequence.rows([0, 10, 20, 35], [1, 2])
    >>> rows
    AffineSequence(turns=(3 turns of 2 from 0 in steps of 10, 1 turns of 2 from 35 in steps of 0))
    >>> len(rows), np.asarray(rows).tolist()
    (8, [1, 2, 11, 12, 21, 22, 36, 37])
    >>> np.asarray(AffineSequence.every(3, step=4, first=3)).tolist()
    [3, 7, 11]
    """

    turns: tuple[LoopTurns, ...]

    @classmethod
    def every(cls, count: int, step: int = 1, first: int = 0) -> AffineSequence:
        """Return a sequence with one number in each of ``count`` turns."""
        return cls((LoopTurns(first, count, step, ONE),) if count else ())

    @classmethod
    def rows(cls, starts: Iterable[int] | np.ndarray, pattern: Iterable[int] | np.ndarray) -> AffineSequence:
        """Repeat a pattern from each of the starts; starts in equal steps make one loop."""
        starts, pattern = (
            np.ascontiguousarray(part if isinstance(part, np.ndarray) else list(part), dtype=np.int64)
            for part in (starts, pattern)
        )
        if not len(pattern):
            return cls(())
        steps = np.diff(starts)
        changes = np.append(np.flatnonzero(np.diff(steps)) + 1, len(steps))  # where a run of equal steps has ended
        turns, k = [], 0
        while k < len(starts):
            end = int(changes[np.searchsorted(changes, k, side="right")]) if k < len(steps) else k
            turns.append(LoopTurns(int(starts[k]), end - k + 1, int(steps[k]) if end > k else 0, pattern))
            k = end + 1
        return cls(tuple(turns))

    @classmethod
    def repeated(cls, numbers: np.ndarray, counts: np.ndarray) -> AffineSequence:
        """Repeat each number; ``counts`` are 1 or more."""
        turns: list[LoopTurns] = []
        for part in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(counts)) + 1):
            if len(part):
                turns += cls.rows(numbers[part], np.zeros(counts[part[0]])).turns
        return cls(tuple(turns))

    @property
    def ends(self) -> tuple[int, int]:
        """The first number and the last one, where there is one."""
        first, last = self.turns[0], self.turns[-1]
        return first.first + int(first.pattern[0]), last.first + (last.count - 1) * last.step + int(last.pattern[-1])

    def rises(self, by: int) -> bool:
        """Return whether each number exceeds the one before by a step at least."""
        before = None
        for turns in self.turns:
            first, last = int(turns.pattern[0]), int(turns.pattern[-1])
            if before is not None and turns.first + first - before < by:
                return False
            if turns.count > 1 and turns.step + first - last < by:
                return False
            if len(turns.pattern) > 1 and (turns.pattern[1:] - turns.pattern[:-1]).min() < by:
                return False
            before = turns.first + (turns.count - 1) * turns.step + last
        return True

    @cached_property
    def _length(self) -> int:
        return sum(turns.count * len(turns.pattern) for turns in self.turns)

    def __len__(self) -> int:
        return self._length

    def between(self, begin: int, end: int) -> np.ndarray:
        """Return the numbers from ``begin`` on and below ``end``, (numbers,) int64, without making the others."""
        parts = [np.zeros(0, dtype=np.int64)]
        for turns in self.turns[np.searchsorted(self._lasts, begin) :]:
            least, most, step = turns.first + int(turns.pattern[0]), turns.first + int(turns.pattern[-1]), turns.step
            if least >= end:
                break
            first, count = 0, turns.count
            if step:
                first = max(0, -((most - begin) // step))  # the first turn that ends at `begin` or later
                count = min(count, -(-(end - least) // step)) - first  # up to the last one that begins below `end`
            numbers = turns.first + step * (first + np.arange(count))[:, None] + turns.pattern
            parts.append(numbers.reshape(-1))
        numbers = np.concatenate(parts)
        return numbers[np.searchsorted(numbers, begin) : np.searchsorted(numbers, end)]

    @cached_property
    def _lasts(self) -> np.ndarray:
        """Last number of each loop, ascending."""
        return np.array([t.first + (t.count - 1) * t.step + int(t.pattern[-1]) for t in self.turns], dtype=np.int64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        parts = [
            (turns.first + turns.step * np.arange(turns.count)[:, None] + turns.pattern).reshape(-1)
            for turns in self.turns
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(dtype or np.int64, copy=False)
