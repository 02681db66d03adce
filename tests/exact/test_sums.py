"""Sums of two quantized tensors: every pair against the definition in exact rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.quantized_add import separate
from onnx_hw.exact.rationals import fractions

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
