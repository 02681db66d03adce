"""Sums of two quantized tensors: every pair against the definition in exact rationals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact import choose_sum
from onnx_hw.exact.canonical_signed_digit import signed_digits
from onnx_hw.exact.choose_sum import choose_weighted_sum
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.quantized_add import WeightedSum, separate
from onnx_hw.exact.rationals import fractions
from onnx_hw.exact.requantization import area, choose
from onnx_hw.exact.wide_quantized_add import find_weighted_sum

INT8 = (-128, 127)


def exact_sums(
    slopes: tuple[Fraction, Fraction],
    offset: Fraction,
    ranges: tuple[tuple[int, int], tuple[int, int]],
    zero_point: int,
    low: int,
    high: int,
) -> np.ndarray:
    """clamp(rhe(p·a + q·b + c) + z) of all pairs (a, b): integers over one denominator."""
    a, b = (np.arange(first, last + 1).astype(object) for first, last in ranges)
    denominator = slopes[0].denominator * slopes[1].denominator * offset.denominator
    p, q, c = (int(value * denominator) for value in (*slopes, offset))
    twice = 2 * (p * a[:, np.newaxis] + q * b + c)
    whole, rest = twice // (2 * denominator), twice % (2 * denominator)
    up = (rest > denominator) | ((rest == denominator) & (whole % 2 == 1))
    return np.clip(whole + up + zero_point, low, high).astype(np.int64)


def check(
    slopes: tuple[Fraction, Fraction],
    offset: Fraction = Fraction(0),
    ranges: tuple[tuple[int, int], tuple[int, int]] = (INT8, INT8),
    zero_point: int = 0,
    low: int = -128,
    high: int = 127,
) -> tuple[int, int]:
    """Every pair; the factors."""
    found = separate(slopes, offset, ranges, Grid.over(Int(8), zero_point=zero_point).within(low, high))
    a, b = (np.arange(first, last + 1) for first, last in ranges)
    j, k = found.factors
    sums = j * a[:, np.newaxis] + k * b
    assert (sums.min(), sums.max()) == (found.exact.first, found.exact.last)
    assert np.array_equal(found.exact(sums), exact_sums(slopes, offset, ranges, zero_point, low, high))
    return found.factors


float_scales = st.floats(2**-9, 4.0, width=32).map(lambda x: Fraction(float(x)))
simple_scales = st.sampled_from([Fraction(p, q) for p in (1, 2, 3, 5) for q in (1, 2, 4, 8, 16, 64)])
spans = st.tuples(st.integers(-128, 127), st.integers(-128, 127)).map(lambda ends: (min(ends), max(ends)))
ranges = st.one_of(st.just(INT8), st.just((0, 255)), st.just((-128, 0)), spans)


@settings(max_examples=25, deadline=None)
@given(
    scales=st.tuples(*[st.one_of(float_scales, simple_scales)] * 3),
    zeros=st.tuples(*[st.integers(-128, 127)] * 3),
    both=st.tuples(ranges, ranges),
    minus=st.booleans(),
    relu=st.booleans(),
)
def test_every_pair(
    scales: tuple[Fraction, Fraction, Fraction],
    zeros: tuple[int, int, int],
    both: tuple[tuple[int, int], tuple[int, int]],
    minus: bool,
    relu: bool,
) -> None:
    p, q = scales[0] / scales[2], (-1 if minus else 1) * scales[1] / scales[2]
    low = max(-128, zeros[2]) if relu else -128
    j, k = check((p, q), -p * zeros[0] - q * zeros[1], both, zeros[2], low)
    assert 1 <= j <= 510 and 1 <= abs(k) <= 510 and (k < 0) == minus


def test_equal_scales_need_no_factors() -> None:
    (s,) = fractions(np.float32(0.0371))
    assert check((s / 2, s / 2), Fraction(3, 7)) == (1, 1)
    assert check((s, -s)) == (1, -1)
    assert check((3 * s, 3 * s / 2)) == (2, 1)


@pytest.mark.parametrize("ratio", [10**6, 10**-6])
def test_an_operand_that_hardly_counts(ratio: float) -> None:
    check((Fraction(1, 2), Fraction(ratio)))
    check((Fraction(ratio), Fraction(1, 2)))


def test_short_ranges_need_small_factors() -> None:
    p, q = fractions(np.array([0.0123, 0.0231], dtype=np.float32))
    assert max(check((p, q), ranges=((-8, 7), (0, 15)))) <= 30


def test_one_value_for_all() -> None:
    assert check((Fraction(1), Fraction(1)), low=5, high=5) == (1, 1)


@pytest.mark.parametrize(
    ("slopes", "span", "told"),
    [
        ((Fraction(0), Fraction(1)), INT8, "must be positive"),
        ((Fraction(1), Fraction(0)), INT8, "not 0"),
        ((Fraction(1), Fraction(1)), (0, 1024), "at most 1024 integers"),
    ],
)
def test_refuses(slopes: tuple[Fraction, Fraction], span: tuple[int, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        separate(slopes, Fraction(0), (INT8, span), Grid.over(Int(1, signed=False)))


UNLIKE = (Fraction(18234, 1000001), Fraction(-14041, 1000003))
"""Slopes whose ratio has no small terms."""


@settings(max_examples=25, deadline=None)
@given(float_scales, float_scales, st.booleans(), ranges, ranges, st.integers(1, 8), st.integers(-128, 127))
def test_the_chosen_sum_is_exact(
    p: Fraction, q: Fraction, falls: bool, a: tuple[int, int], b: tuple[int, int], bits: int, zero_point: int
) -> None:
    slopes, offset = (p, -q if falls else q), Fraction(zero_point, 7)
    grid = Grid.over(Int(8), zero_point=zero_point).within(-(1 << bits - 1), (1 << bits - 1) - 1)
    chosen = choose_weighted_sum(slopes, offset, (a, b), grid)
    first, second = (np.arange(low, high + 1) for low, high in (a, b))
    j, k = chosen.factors
    exact = exact_sums(slopes, offset, (a, b), zero_point, -(1 << bits - 1), (1 << bits - 1) - 1)
    assert np.array_equal(chosen.exact(j * first[:, np.newaxis] + k * second), exact)


def test_the_cheaper_sum_is_chosen() -> None:
    """A line where there are many results, a search among thresholds where there are few."""
    wide, narrow = Grid.over(Int(8), Fraction(1, 9)), Grid.over(Int(8), Fraction(1)).within(0, 1)
    line = choose_weighted_sum(UNLIKE, Fraction(1, 3), (INT8, INT8), wide)
    assert line.factors == find_weighted_sum(UNLIKE, Fraction(1, 3), (INT8, INT8), wide).factors
    assert isinstance(choose(line.exact), MultiplyAddShift)
    few = choose_weighted_sum(UNLIKE, Fraction(1, 3), (INT8, INT8), narrow)
    assert few.factors == separate(UNLIKE, Fraction(1, 3), (INT8, INT8), narrow).factors
    separated = separate(UNLIKE, Fraction(1, 3), (INT8, INT8), wide)
    digits = [sum(len(signed_digits(factor)) for factor in one.factors) for one in (line, separated)]
    assert digits[0] > digits[1] and area(choose(line.exact)) < area(choose(separated.exact)) / 4


def test_a_line_that_is_not_the_sum_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any) -> WeightedSum:
        line = find_weighted_sum(*arguments)
        exact, thresholds = line.exact, line.exact.thresholds
        moved = thresholds + (exact.reached & exact.missed) * (1 << 14)  # of some 2^17 from step to step
        return replace(line, exact=replace(exact, thresholds=np.minimum(moved, exact.last + 1)))

    monkeypatch.setattr(choose_sum, "find_weighted_sum", wrong)
    with pytest.raises(AssertionError, match="two exact sums must be equal"):
        choose_weighted_sum(UNLIKE, Fraction(2, 3), (INT8, INT8), Grid.over(Int(8), Fraction(1, 9)))
