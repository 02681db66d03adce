"""Exact sum of two quantized tensors as a sum of two tables: what loadable sums are made of, whatever their scales.

    y = grid.integer(p·a + q·b + c) = clamp((first[a] + second[b] − tie) >> shift, low, high)

Let p·a and q·b + c, counted in steps of y from the edge of 0, be integers f and g and the fractions u and w. Then y is
f + g, or one more where u + w ≥ 1: of the fractions, only the order of the u and the 1 − w matters. In the tables each
fraction is replaced by its number in that order; so the bits of an operand, and one more, are enough for any scales.
Equal numbers are ties, of which half go up: at such a sum, ``tie`` is 1 where y has a certain parity.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.rounding import Rounding

Ranges = tuple[tuple[int, int], tuple[int, int]]
"""Ranges (least, greatest) of a and of b."""

MAX_TABLE_ARGUMENTS = 1 << 10
"""Greatest number of integers in the range of an operand."""


@dataclass(frozen=True, eq=False)
class SeparableSum:
    """Sum of two tables.

    Attributes:
        first, second: (arguments,) int64, entries for the integers of a and b in their ranges, ascending.
        shift: number of bits below the steps of y.
        parity: parity of the y that a tie does not reach.
    """

    first: np.ndarray
    second: np.ndarray
    shift: int
    parity: int


@lru_cache(maxsize=64)  # a model is checked, then built
def separable_sum(
    slopes: tuple[Fraction, Fraction], offset: Fraction, ranges: Ranges, grid: Grid, shift: int
) -> SeparableSum | None:
    """Return the tables, proven for every pair that can occur; None where ties are rounded away from 0, or towards it.

    Args:
        slopes, offset: p and q, of which q may be negative, and c.
        ranges: at most ``MAX_TABLE_ARGUMENTS`` integers each.
        shift: number of bits below the steps of y; 2^shift is not less than the number of integers of both ranges.

    Raises:
        ValueError: an operand has too many integers, or the shift is too small.
    """
    if any(last - first >= MAX_TABLE_ARGUMENTS for first, last in ranges):
        raise ValueError(f"the operands must have at most {MAX_TABLE_ARGUMENTS} integers, not the ranges {ranges}")
    if sum(last - first + 1 for first, last in ranges) > 1 << shift:
        raise ValueError(f"the shift must hold a number for every integer of the ranges {ranges}, not {shift} bits")
    if grid.rounding.is_signed or grid.rounding in (Rounding.HALF_UP, Rounding.HALF_DOWN):
        return None
    p, q = (slope / grid.step[0] for slope in slopes)
    edge = grid.position(offset) + Fraction(grid.rounding.halves_below(grid.high), 2)
    one = lcm(p.denominator, q.denominator, edge.denominator)
    a, b = (np.arange(first, last + 1).astype(object) for first, last in ranges)
    of_a, of_b = int(p * one) * a, int(q * one) * b + int(edge * one)
    first, second = _numbered(of_a, of_b, one, shift, grid.rounding)
    found = SeparableSum(first, second, shift, grid.rounding.parity(grid.zeros[0]))
    _prove(found, np.add.outer(of_a, of_b), one, grid)
    return found


def _numbered(
    of_a: np.ndarray, of_b: np.ndarray, one: int, shift: int, rounding: Rounding
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tables of multiples of 1/one: fractions are replaced by their numbers in the order of all.

    A number at an edge belongs to the upper side, to the lower side, or is a tie; then both sides have one number.
    """
    rises = [int(x % one) for x in of_a]
    wanted = [int(-x % one) for x in of_b]  # the least fraction that lifts the sum to the next integer
    beside = {Rounding.FLOOR: (0, 1), Rounding.CEIL: (1, 0)}.get(rounding, (0, 0))
    keys = sorted({(x, beside[1]) for x in rises} | {(x, beside[0]) for x in wanted})
    number = {key: k for k, key in enumerate(keys)}
    first = [(int(x // one) << shift) + number[r, beside[1]] for x, r in zip(of_a, rises, strict=True)]
    second = [-(int(-x // one) << shift) - number[w, beside[0]] for x, w in zip(of_b, wanted, strict=True)]
    middle = (min(first) + max(first) + 1 >> shift + 1) << shift  # both tables about 0, as far as one alone can be
    return np.array([x - middle for x in first], dtype=np.int64), np.array([x + middle for x in second], dtype=np.int64)


def _prove(found: SeparableSum, sums: np.ndarray, one: int, grid: Grid) -> None:
    """Compare the sum of the tables with the exact one, for every pair.

    Args:
        sums: (integers of a, integers of b) object array: the exact sum above the edge of 0, in parts of 1/one.
    """
    exact = (sums // one).astype(np.int64)
    on_edge = (sums % one == 0) & ~grid.rounding.takes_edge(exact, grid.zeros[0])
    exact = np.clip(exact - on_edge, grid.low, grid.high)
    total = np.add.outer(found.first, found.second)
    level = total >> found.shift
    tie = (level % 2 == found.parity) & (total == level << found.shift)
    if not np.array_equal(np.clip(level - tie, grid.low, grid.high), exact):
        raise AssertionError("the sum of two tables must be the exact sum")
