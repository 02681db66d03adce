"""Sums of operands of more than 10 bits: the pairs next to a step, where it is hard, against exact rationals."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import choose, costs
from onnx_hw.exact.rounding import Rounding
from onnx_hw.exact.sums import WeightedSum, separate
from onnx_hw.exact.wide_sums import weighted

Line = tuple[tuple[Fraction, Fraction], Fraction]
Ranges = tuple[tuple[int, int], tuple[int, int]]


def next_to_steps(line: Line, ranges: Ranges, grid: Grid, rng: np.random.Generator, count: int) -> np.ndarray:
    """(pairs, 2): for values a and levels that are drawn, the b on both sides of the step."""
    (p, q), offset = line
    found = []
    while len(found) < count:
        a, level = int(rng.integers(ranges[0][0], ranges[0][1] + 1)), int(rng.integers(grid.low + 1, grid.high + 1))
        edge = grid.real(level, 0) - grid.step[0] / 2
        b = ceil((edge - offset - p * a) / q)
        found += [(a, x) for x in (b - 1, b, b + 1) if ranges[1][0] <= x <= ranges[1][1]]
    return np.array(found)


def differing(found: WeightedSum, line: Line, grid: Grid, pairs: np.ndarray) -> int:
    """At how many of some pairs it is not the exact sum."""
    (p, q), offset = line
    j, k = found.factors
    given = found.exact(j * pairs[:, 0] + k * pairs[:, 1])
    return sum(grid.integer(p * a + q * b + offset) != y for (a, b), y in zip(pairs.tolist(), given.tolist(), strict=True))


def drawn(seed: int) -> tuple[Line, Ranges, Grid]:
    """Widths from 9 to 16, one of them more than 10; scales of 24 bits, or simple ones, which meet ties."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(9, 17, 3)
    bits[seed % 2] = rng.integers(11, 17)
    types = [Int(int(n), bool(rng.integers(2))) for n in bits]
    zeros = [int(rng.integers(t.min, t.max + 1)) for t in types]
    scales = [Fraction(float(np.float32(s))) for s in rng.uniform(0.2, 1.5, 3) * 0.5 ** bits]
    if seed % 5 == 4:
        scales = [Fraction(int(n), 1 << int(b)) for n, b in zip(rng.choice([1, 2, 3, 5], 3), bits, strict=True)]
    rounding = Rounding.HALF_EVEN if seed % 3 else Rounding(list(Rounding)[int(rng.integers(6))])
    grid = Grid.over(types[2], scales[2], zeros[2], rounding=rounding)
    p, q = scales[0], scales[1] * (-1 if seed % 4 == 3 else 1)
    ranges = (types[0].min, types[0].max), (types[1].min, types[1].max)
    return ((p, q), -p * zeros[0] - q * zeros[1]), ranges, grid


@pytest.mark.parametrize("seed", range(12))
def test_next_to_every_kind_of_step(seed: int) -> None:
    line, ranges, grid = drawn(seed)
    found = weighted(*line, ranges, grid)
    pairs = next_to_steps(line, ranges, grid, np.random.default_rng(seed), 3000)
    assert differing(found, line, grid, pairs) == 0
    thresholds = found.exact.thresholds
    assert (np.diff(thresholds) >= 0).all() and found.exact.last.bit_length() < 62
