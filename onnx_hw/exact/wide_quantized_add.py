"""Exact sum of two quantized tensors of up to 16 bits: a line in integers, j·a + k·b + c, without its low bits.

    y = grid.integer(p·a + q·b + d)          p > 0, q ≠ 0, d rational; a, b, y integer

is ⌊(A·a + B·b + E)/D⌋, clamped, but for ties. Instead of it ⌊(j·a + k·b + c)/2^S⌋ is computed, a line that is nowhere
further than w from the exact one. The two can only differ at pairs (a, b) that lie within w of a step of the exact
function. With fractions of B·b/D in order, those of each a are found by bisection: of the 2^32 pairs of 16 bits some
thousands. For given j and k they bound c from both sides; a c between is the proof, for all pairs.

The pairs nearest to a step are some 2^-32 of it away, so j and k have up to three times the bits of an operand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, floor, lcm, prod

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.multiply_add_shift import roundest_within
from onnx_hw.exact.quantized_add import WeightedSum
from onnx_hw.exact.step_function import Steps, steps

Ranges = tuple[tuple[int, int], tuple[int, int]]
"""Ranges (least, greatest) of a and of b."""

MAX_WIDE_OPERAND_VALUES = 1 << 16
"""Greatest number of integers in the range of an operand."""

_UNIT = 1 << 61
"""Number of units in 1, in which fractions are counted, rounded down."""

_PAIRS_EXAMINED = 1 << 12
"""Number of pairs that are examined, approximately."""

_MAX_PAIRS = 1 << 18
"""Greatest number of pairs that are examined.

There are more where scales are nearly simple multiples of each other; then only nearer ones are examined.
"""

_NEIGHBOURS = sorted(product(range(-4, 5), repeat=2), key=lambda by: (abs(by[0]) + abs(by[1]), by))
"""Offsets from the nearest factors to others that are tried, too, by their distance."""

_BITS_OF_A_SUM = 61
"""Width of a sum in bits, as numpy and the simulator compute it."""


def find_weighted_sum(slopes: tuple[Fraction, Fraction], offset: Fraction, ranges: Ranges, grid: Grid) -> WeightedSum:
    """Find the factors and the steps of their sum; ``onnx_hw.exact.quantized_add.separate`` does so for shorter ranges.

    Raises:
        ValueError: no factors fit into 61 bits, or rounding is away from 0 or towards it.
    """
    if slopes[0] <= 0 or slopes[1] == 0:
        raise ValueError(f"the first slope must be positive and the second not 0, not {slopes}")
    if any(greatest - least >= MAX_WIDE_OPERAND_VALUES for least, greatest in ranges):
        raise ValueError(f"the operands must have at most {MAX_WIDE_OPERAND_VALUES} integers, not the ranges {ranges}")
    if grid.rounding.is_signed:
        raise ValueError(f"a sum of more than 10 bits must not be rounded {grid.rounding.value}")
    ratio = slopes[1] / slopes[0]
    j, k = ratio.denominator, ratio.numerator
    # with small factors j·a + k·b is proportional to p·a + q·b, so that the exact function is a function of it
    if max(j, abs(k)) < MAX_WIDE_OPERAND_VALUES >> 4:
        low, high = _ends((j, k), ranges)
        return WeightedSum((j, k), steps([slopes[0] / j], [offset], grid, low, high))
    return _line(_Exact.of(slopes, offset, grid), ranges, grid)


@dataclass(frozen=True)
class _Exact:
    """Exact sum: y = ⌊(a·A + b·B + E)/D⌋, but one less on some ties."""

    a: int
    b: int
    constant: int
    scale: int

    @classmethod
    def of(cls, slopes: tuple[Fraction, Fraction], offset: Fraction, grid: Grid) -> _Exact:
        p, q = (slope / grid.step[0] for slope in slopes)
        edge = grid.position(offset) + Fraction(grid.rounding.halves_below(grid.high), 2)
        scale = lcm(p.denominator, q.denominator, edge.denominator)
        return cls(int(p * scale), int(q * scale), int(edge * scale), scale)


@dataclass(frozen=True)
class _Pairs:
    """Pairs near a step: (pairs,) int64 each.

    Attributes:
        a, b: the operands.
        level: the least y on the upper side of the step.
        odd: bool, whether ties do not reach it.
        above: bool, whether the pair is there.
        ties: whether some are on a step.
    """

    a: np.ndarray
    b: np.ndarray
    level: np.ndarray
    odd: np.ndarray
    above: np.ndarray
    ties: bool


def _line(exact: _Exact, ranges: Ranges, grid: Grid) -> WeightedSum:
    size = prod(1 + last - first for first, last in ranges)
    near = Fraction(min(_UNIT // 4, _UNIT * _PAIRS_EXAMINED // size), _UNIT)
    while (pairs := _near_a_step(exact, ranges, grid, near)) is None:
        near /= 16
        if near < Fraction(1 << 8, _UNIT):
            raise ValueError("too many pairs lie next to a step")
    for shift in range(8, _BITS_OF_A_SUM):
        for j, k in _factors(exact, shift):
            most = sum(abs(factor) * max(map(abs, ends)) for factor, ends in zip((j, k), ranges, strict=True))
            most += (abs(exact.constant) << shift) // exact.scale + (max(-grid.low, grid.high) + 2 << shift)
            if most.bit_length() > _BITS_OF_A_SUM:
                raise ValueError(f"no line in {_BITS_OF_A_SUM} bits is the sum")
            room = _room(exact, ranges, near, (j, k, shift))
            if room is None:
                break  # other factors are further from the line
            for tie in _corrections(exact, pairs, shift):
                low, high = _narrow(room, pairs, (j, k, shift), tie)
                if low <= high:
                    return _with_thresholds(
                        (j, k), _ends((j, k), ranges), (shift, roundest_within(low, high), tie), grid
                    )
    raise ValueError(f"no line in {_BITS_OF_A_SUM} bits is the sum")


def _with_thresholds(
    factors: tuple[int, int], ends: tuple[int, int], line: tuple[int, int, int], grid: Grid
) -> WeightedSum:
    """Return the sum with the thresholds of the line, shifted by the correction where a tie does not reach them."""
    shift, addend, tie = line
    levels = np.arange(grid.low + 1, grid.high + 1, dtype=np.int64)
    parity = grid.rounding.parity(grid.zeros[0])
    thresholds = np.clip((levels << shift) - addend + tie * (levels % 2 == parity), ends[0], ends[1] + 1)
    return WeightedSum(factors, Steps(*ends, grid.low, grid.high, thresholds[np.newaxis], parity))


def _corrections(exact: _Exact, pairs: _Pairs, shift: int) -> Iterator[int]:
    """Return what to add to every second step when ties on it stay below: less than the next pair is away."""
    yield 0
    if pairs.ties:
        beyond = shift - exact.scale.bit_length()
        yield from (1 << bit for bit in range(beyond, beyond - 3, -1) if bit >= 0)


def _factors(exact: _Exact, shift: int) -> Iterator[tuple[int, int]]:
    """Yield the factors nearest to the exact ones, then others; the first is positive, the second not 0."""
    j, k = (round(Fraction(factor << shift, exact.scale)) for factor in (exact.a, exact.b))
    return ((j + dj, k + dk) for dj, dk in _NEIGHBOURS if j + dj > 0 and k + dk)


def _room(exact: _Exact, ranges: Ranges, near: Fraction, line: tuple[int, int, int]) -> tuple[int, int] | None:
    """Return the c, from the least to the greatest, with which the line is less than ``near`` from the exact one."""
    j, k, shift = line
    apart = [  # without c, at the corners, where the two lines are furthest from each other
        Fraction(j * a + k * b, 1 << shift) - Fraction(exact.a * a + exact.b * b + exact.constant, exact.scale)
        for a in ranges[0]
        for b in ranges[1]
    ]
    low, high = floor((-near - min(apart)) * (1 << shift)) + 1, ceil((near - max(apart)) * (1 << shift)) - 1
    return (low, high) if low <= high else None


def _narrow(room: tuple[int, int], pairs: _Pairs, line: tuple[int, int, int], tie: int) -> tuple[int, int]:
    """Narrow ``room`` to the c with which every pair near a step is on its side of it."""
    (low, high), (j, k, shift) = room, line
    low = low + tie  # pairs further away stay on their side of the corrected step, too
    rest = (pairs.level << shift) + tie * pairs.odd - j * pairs.a - k * pairs.b
    if pairs.above.any():
        low = max(low, int(rest[pairs.above].max()))
    if not pairs.above.all():
        high = min(high, int(rest[~pairs.above].min()) - 1)
    return low, high


def _near_a_step(exact: _Exact, ranges: Ranges, grid: Grid, near: Fraction) -> _Pairs | None:
    """Return all pairs within ``near`` of a step of the grid, and some others; None if there are too many."""
    a, b = (range(first, last + 1) for first, last in ranges)
    of_a = np.array([(exact.a * x + exact.constant) % exact.scale * _UNIT // exact.scale for x in a], dtype=np.int64)
    of_b = np.array([exact.b * x % exact.scale * _UNIT // exact.scale for x in b], dtype=np.int64)
    order = np.argsort(of_b)
    around, window, groups = of_b[order], int(near * _UNIT) + 4, []
    for turn in (0, 1, 2):
        middle = turn * _UNIT - of_a
        first, last = (np.searchsorted(around, middle + distance, "left") for distance in (-window, window + 1))
        counts = last - first
        if counts.sum() > _MAX_PAIRS:
            return None
        rows = np.repeat(np.arange(len(of_a)), counts)
        positions = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + first[rows]
        groups.append(np.stack([rows + a[0], order[positions] + b[0]]))
    pairs = np.unique(np.concatenate(groups, axis=1), axis=1)
    values = [exact.a * x + exact.b * y + exact.constant for x, y in pairs.T.tolist()]
    levels = [(2 * value + exact.scale) // (2 * exact.scale) for value in values]  # the nearest
    beyond = [value - exact.scale * level for value, level in zip(values, levels, strict=True)]
    zero = grid.zeros[0]
    above = [
        gap > 0 or (gap == 0 and bool(grid.rounding.takes_edge(level, zero)))
        for gap, level in zip(beyond, levels, strict=True)
    ]
    level = np.array(levels, dtype=np.int64)
    real = (grid.low < level) & (level <= grid.high)
    level, odd = level[real], level[real] % 2 == grid.rounding.parity(zero)
    return _Pairs(pairs[0][real], pairs[1][real], level, odd, np.array(above, dtype=bool)[real], 0 in beyond)


def _ends(factors: tuple[int, int], ranges: Ranges) -> tuple[int, int]:
    """Return the least and the greatest sum."""
    ends = [sorted(factor * end for end in ends) for factor, ends in zip(factors, ranges, strict=True)]
    return sum(low for low, _ in ends), sum(high for _, high in ends)
