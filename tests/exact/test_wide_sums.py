"""Sums of operands of more than 10 bits: the pairs next to a step, where it is hard, against exact rationals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.quantized_add import WeightedSum, separate
from onnx_hw.exact.requantization import costs, prove
from onnx_hw.exact.rounding import Rounding
from onnx_hw.exact.wide_quantized_add import find_weighted_sum
from onnx_hw.ops.add import Add, AddFolding
from onnx_hw.ops.requantize import RequantizeFolding, Staircase
from onnx_hw.ops.tensor import Tensor
from support.random_cases import Case

Line = tuple[tuple[Fraction, Fraction], Fraction]
Ranges = tuple[tuple[int, int], tuple[int, int]]


def next_to_steps(line: Line, ranges: Ranges, grid: Grid, rng: np.random.Generator, count: int) -> np.ndarray:
    """(pairs, 2): for values a and levels that are drawn, the b on both sides of the step."""
    (p, q), offset = line
    found: list[Any] = []
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
    return sum(
        grid.integer(p * a + q * b + offset) != y for (a, b), y in zip(pairs.tolist(), given.tolist(), strict=True)
    )


def drawn(seed: int) -> tuple[Line, Ranges, Grid]:
    """Widths from 9 to 16, one of them more than 10; scales of 24 bits, or simple ones, which meet ties."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(9, 17, 3)
    bits[seed % 2] = rng.integers(11, 17)
    types = [Int(int(n), bool(rng.integers(2))) for n in bits]
    zeros = [int(rng.integers(t.min, t.max + 1)) for t in types]
    scales = [Fraction(float(np.float32(s))) for s in rng.uniform(0.2, 1.5, 3) * 0.5**bits]
    if seed % 5 == 4:
        scales = [Fraction(int(n), 1 << int(b)) for n, b in zip(rng.choice([1, 2, 3, 5], 3), bits, strict=True)]
    if seed % 5 == 3:  # nearly simple multiples of each other: all pairs lie next to steps
        scales = [Fraction(float(np.float32(s))) for s in rng.permutation([0.001, 0.02, 0.002])]
    rounding = Rounding.HALF_EVEN if seed % 3 else Rounding(list(Rounding)[int(rng.integers(6))])
    grid = Grid.over(types[2], scales[2], zeros[2], rounding=rounding)
    p, q = scales[0], scales[1] * (-1 if seed % 4 == 3 else 1)
    ranges = (types[0].min, types[0].max), (types[1].min, types[1].max)
    return ((p, q), -p * zeros[0] - q * zeros[1]), ranges, grid


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 5, 7, 8, 13])
def test_next_to_every_kind_of_step(seed: int) -> None:
    line, ranges, grid = drawn(seed)
    found = find_weighted_sum(*line, ranges, grid)
    pairs = next_to_steps(line, ranges, grid, np.random.default_rng(seed), 1500)
    assert differing(found, line, grid, pairs) == 0
    thresholds = found.exact.thresholds
    assert (np.diff(thresholds) >= 0).all() and found.exact.last.bit_length() < 62


@pytest.mark.parametrize("seed", [0, 7])
def test_the_circuits_are_those_of_the_sum(seed: int) -> None:
    """The weighted sum, and what drops its low bits: a multiplication by 1, without block RAM; of ties, too."""
    line, ranges, grid = drawn(seed)
    found = find_weighted_sum(*line, ranges, grid)
    (a, b), size = (Int.holding(*ends) for ends in ranges), (1, 2, 3)
    add = Add(Tensor(size, a), Tensor(size, b), found.factors)
    stairs = Staircase(add.results()[0], found.exact, grid.dtype)
    assert isinstance(stairs.circuit, MultiplyAddShift) and stairs.circuit.digits <= 2
    assert (stairs.circuit.tie_bit is not None) == (seed == 7) and costs(stairs.circuit, 1).bram == 0
    Case(add, AddFolding(2)).check()
    Case(stairs, RequantizeFolding(2)).check()
    moved = replace(stairs.circuit, addends=stairs.circuit.addends + (1 << stairs.circuit.shift - 4))
    with pytest.raises(ValueError, match="the requantizer must give"):
        prove(moved, found.exact)


def test_it_is_the_same_sum_as_of_few_bits() -> None:
    line, ranges, grid = (Fraction(613, 1000), Fraction(377, 901)), ((-128, 127), (-90, 127)), Grid.over(Int(8))
    both = [make(line, Fraction(1, 3), ranges, grid) for make in (separate, find_weighted_sum)]
    a, b = (part.reshape(-1) for part in np.meshgrid(*(np.arange(low, high + 1) for low, high in ranges)))
    first, second = (one.exact(one.factors[0] * a + one.factors[1] * b) for one in both)
    assert np.array_equal(first, second) and len(np.unique(first)) > 150


def test_wrong_factors_are_seen_next_to_steps() -> None:
    """What the tests above compare would tell."""
    line, ranges, grid = drawn(0)
    found = find_weighted_sum(*line, ranges, grid)
    pairs = next_to_steps(line, ranges, grid, np.random.default_rng(1), 1000)
    (j, k), exact = found.factors, found.exact
    wrong = replace(exact, thresholds=exact.thresholds + (int(exact.thresholds[0, -1] - exact.thresholds[0, -2]) >> 8))
    assert differing(replace(found, exact=wrong), line, grid, pairs) > 0
    assert differing(replace(found, factors=(j, k + (k >> 16))), line, grid, pairs) > 0


@pytest.mark.parametrize("ranges", [((0, 1 << 16), (0, 1)), ((0, 1), (0, 1 << 16))])
def test_longer_ranges_are_refused(ranges: Ranges) -> None:
    with pytest.raises(ValueError, match="must have at most 65536 integers"):
        find_weighted_sum((Fraction(1), Fraction(1, 3)), Fraction(0), ranges, Grid.over(Int(16)))
