"""Exact sum of two quantized tensors with scales of their own: a weighted sum of integers and its thresholds.

    y = grid.integer(p·a + q·b + c)          p > 0, q ≠ 0, c rational; a, b, y integer

For every a this is a step function of b, so the pairs (a, b) with y ≥ k are known exactly: those with b at or beyond a
threshold. Integers j, k *separate* the levels if at every level each pair with y ≥ level has a greater j·a + k·b than
each pair with y < level; then y is a step function of j·a + k·b. The test compares the least sum above with the
greatest below, level by level, and passing it is the proof.

There are such integers, and they are small: a ratio q : p whose terms exceed N = the longest range of a or b lies
between two neighbours of the Farey sequence of order N, and every fraction between them orders all pairs as the ratio
does; the mediant of the neighbours is one, with terms up to 2N. A ratio with smaller terms is its own j, k.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd

import numpy as np

from onnx_hw.exact.canonical_signed_digit import signed_digits
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.step_function import Steps, steps

MAX_OPERAND_VALUES = 1 << 10
"""Greatest number of integers in the range of an operand: up to here the search takes a moment."""

MAX_SUMS = 1 << 16
"""Greatest number of sums that are compared at once: they stay in the cache."""

LEVEL_STRIDE = 16
"""Distance of the levels tried first: most factors fail at one of them; only the others are tried at all levels."""


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """Weighted sum with the steps of a requantizer: y = exact(j·a + k·b).

    Attributes:
        factors: (j, k), j > 0.
        exact: the step function of every j·a + k·b that can occur.
    """

    factors: tuple[int, int]
    exact: Steps


@dataclass(frozen=True, eq=False)
class PairsByLevel:
    """Pairs (a, b) in the order of their y: where there are more levels than pairs, these are fewer to compare.

    Attributes:
        a, b: (pairs,) int64.
        starts: (levels that occur,) int64: first pair of each y.
    """

    a: np.ndarray
    b: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, rows: Steps, a: np.ndarray) -> PairsByLevel:
        """Return all pairs; ``rows`` has a step function of b for each a."""
        b = np.arange(rows.first, rows.last + 1)[:, np.newaxis]
        y = rows(np.broadcast_to(b, (len(b), len(a)))).reshape(-1)
        order = np.argsort(y, kind="stable")
        starts = np.flatnonzero(np.diff(y[order], prepend=y.min() - 1))
        return cls(a[order % len(a)], b.reshape(-1)[order // len(a)], starts)

    def are_ordered(self, j: int, k: int) -> bool:
        """Return whether each pair has a greater j·a + k·b than each pair of a less y."""
        sums = j * self.a + k * self.b
        greatest = np.maximum.accumulate(np.maximum.reduceat(sums, self.starts))
        return bool((greatest[:-1] < np.minimum.reduceat(sums, self.starts)[1:]).all())


@lru_cache(maxsize=64)  # a model is checked, then built; a search takes a second or two
def separate(
    slopes: tuple[Fraction, Fraction],
    offset: Fraction,
    ranges: tuple[tuple[int, int], tuple[int, int]],
    grid: Grid,
) -> WeightedSum:
    """Find the separating factors with the fewest digits, then the smallest; proven for every pair that can occur.

    Args:
        slopes: (p, q).
        offset: c.
        ranges: (least, greatest) of a and of b; at most ``MAX_OPERAND_VALUES`` integers each.
        grid: the grid of the sum.

    Raises:
        ValueError: an operand has a longer range, p is not positive, or q is 0.
    """
    if slopes[0] <= 0 or slopes[1] == 0:
        raise ValueError(f"the first slope must be positive and the second not 0, not {slopes}")
    if any(greatest - least >= MAX_OPERAND_VALUES for least, greatest in ranges):
        raise ValueError(f"the operands must have at most {MAX_OPERAND_VALUES} integers, not the ranges {ranges}")
    sign = 1 if slopes[1] > 0 else -1
    (first, last), b_range = ranges
    # with a falling b the sum rises in −b
    least, greatest = sorted(sign * end for end in b_range)
    a = np.arange(first, last + 1)
    rows = steps(
        [abs(slopes[1])],
        [slopes[0] * int(x) + offset for x in a],
        grid,
        first=least,
        last=greatest,
    )
    sparse = slice(None, None, LEVEL_STRIDE)
    pairs = PairsByLevel.of(rows, a) if rows.high - rows.low > LEVEL_STRIDE * (greatest - least) else None
    for j, k in _candidates(abs(slopes[1]) / slopes[0], 2 * max(last - first, greatest - least, 1)):
        if pairs is not None:
            if not pairs.are_ordered(j, k):
                continue
        else:
            above, below = _sums(rows, a, j, k, sparse)
            if not (below < above).all():
                continue
        above, below = _sums(rows, a, j, k)
        if (below < above).all():
            bottom, top = j * first + k * least, j * last + k * greatest
            thresholds = np.minimum(above, top + 1)
            return WeightedSum(
                (j, sign * k), Steps(bottom, top, grid.low, grid.high, thresholds[np.newaxis], rows.parity)
            )
    raise AssertionError(f"no factors separate the sums of {slopes} over {ranges}")


def _sums(rows: Steps, a: np.ndarray, j: int, k: int, levels: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
    """Return per level the least j·a + k·b of the pairs that reach it and the greatest of those that do not."""
    thresholds, none = rows.thresholds[:, levels], np.iinfo(np.int64)
    above, below = (np.full(thresholds.shape[1], end) for end in (none.max, none.min))
    count = max(1, MAX_SUMS // max(1, thresholds.shape[1]))
    for start in range(0, len(a), count):
        part, base = thresholds[start : start + count], (j * a[start : start + count])[:, np.newaxis]
        reached = np.where(part <= rows.last, base + k * part, none.max)
        missed = np.where(part > rows.first, base + k * (part - 1), none.min)
        np.minimum(above, reached.min(axis=0), out=above)
        np.maximum(below, missed.max(axis=0), out=below)
    return above, below


def _candidates(ratio: Fraction, most: int) -> list[tuple[int, int]]:
    """Yield (j, k) with k/j about the ratio and terms up to ``most``: few digits first, then small ones."""
    pairs = set()
    for term in range(1, most + 1):
        for j, k in ((term, near) for near in _neighbours(ratio * term, most)):
            pairs.add((j, k))
        for j, k in ((near, term) for near in _neighbours(term / ratio, most)):
            pairs.add((j, k))
    reduced = [pair for pair in pairs if gcd(*pair) == 1]
    return sorted(reduced, key=lambda pair: (_digits(pair), sum(pair), pair))


def _neighbours(value: Fraction, most: int) -> tuple[int, int]:
    """Return the integers on both sides, within 1..``most``."""
    below = value.numerator // value.denominator
    return min(max(below, 1), most), min(max(below + 1, 1), most)


def _digits(pair: tuple[int, int]) -> int:
    return sum(len(signed_digits(number)) for number in pair)
