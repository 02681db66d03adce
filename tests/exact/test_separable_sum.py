"""Sums of two tables: equal to the real sum, rounded, for every pair; and any scales fit the same few bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding import Rounding
from onnx_hw.exact.rounding_shift import LoadableBounds, RoundingShift, shift_in_form, steps_of_shift
from onnx_hw.exact.separable_sum import separable_sum
from support.random_cases import many

SLOPES = st.one_of(
    st.fractions(Fraction(1, 64), 4, max_denominator=1 << 20),
    st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(3, 4), Fraction(5, 8)]),  # with ties at every other pair
)


def rounded(number: Fraction, zero: int, rounding: Rounding) -> int:
    """Return the integer of a number in steps, before the zero point, as ONNX and QONNX define it."""
    match rounding:
        case Rounding.HALF_EVEN:
            return round(number) + zero
        case Rounding.ROUND:
            return round(number + zero)
        case Rounding.FLOOR:
            return number.__floor__() + zero
        case Rounding.CEIL:
            return number.__ceil__() + zero
    raise AssertionError(rounding)


@many
@given(
    SLOPES,
    SLOPES,
    st.booleans(),
    st.fractions(-9, 9, max_denominator=64),
    st.integers(-8, 7),
    st.sampled_from([Rounding.HALF_EVEN, Rounding.ROUND, Rounding.FLOOR, Rounding.CEIL]),
)
def test_every_pair(p: Fraction, q: Fraction, falls: bool, c: Fraction, zero: int, rounding: Rounding) -> None:
    """Fractions are the witness: what the tables and the shift make of each pair."""
    grid = Grid.over(Int(4), Fraction(1), zero, rounding)
    q, ranges = (-q if falls else q), ((-8, 7), (-5, 10))
    tables = separable_sum((p, q), c, ranges, grid, 5)
    assert tables is not None
    form = LoadableBounds(Int(20), tables.shift, -8, 7)
    function = steps_of_shift(tables.shift, tables.parity, (-8, 7), (Int(20).min, Int(20).max))
    circuit = shift_in_form(function, form)
    assert circuit is not None
    for k, a in enumerate(range(-8, 8)):
        for n, b in enumerate(range(-5, 11)):
            wanted = min(max(rounded(p * a + q * b + c, zero, rounding), -8), 7)
            total = np.array([tables.first[k] + tables.second[n]])
            assert function(total)[0] == wanted
            assert circuit.apply(np.zeros(1, dtype=np.int64), total)[0] == wanted


def test_the_bits_do_not_depend_on_the_scales() -> None:
    """Of 40 pairs of float32 scales, all fit 9 bits below a step; the tables are as wide as the numbers, and no wider.

    A weighted sum of integers needs 40 bits for some of them.
    """
    random = np.random.default_rng(1)
    for _ in range(40):
        p, q = (Fraction(float(np.float32(step))) for step in np.exp(random.normal(-0.5, 0.5, 2)))
        grid = Grid.over(Int(8), Fraction(1), int(random.integers(-128, 128)))
        tables = separable_sum((p, q), Fraction(0), ((-128, 127), (-128, 127)), grid, 9)
        assert tables is not None
        for table, slope in ((tables.first, p), (tables.second, q)):
            assert (np.diff(table) >= 0).all()
            assert int(table.max() - table.min()) <= (int(255 * slope) + 2) << 9


def test_what_has_no_tables() -> None:
    away = Grid.over(Int(8), Fraction(1), 0, Rounding.HALF_UP)
    assert separable_sum((Fraction(1), Fraction(1)), Fraction(0), ((0, 9), (0, 9)), away, 9) is None
    grid = Grid.over(Int(8), Fraction(1))
    with pytest.raises(ValueError, match="at most 1024 integers"):
        separable_sum((Fraction(1), Fraction(1)), Fraction(0), ((0, 1024), (0, 9)), grid, 11)
    with pytest.raises(ValueError, match="not 4 bits"):
        separable_sum((Fraction(1), Fraction(1)), Fraction(0), ((0, 9), (0, 9)), grid, 4)


def test_a_shift_takes_other_bounds_and_the_other_parity() -> None:
    form = LoadableBounds(Int(12), 4, -8, 7)
    for parity, low, high in ((0, -8, 7), (1, -3, 2), (1, 5, 5)):
        function = steps_of_shift(4, parity, (low, high), (Int(12).min, Int(12).max))
        assert shift_in_form(function, form) == RoundingShift(Int(12), 4, low, high, parity, form)
    assert shift_in_form(steps_of_shift(4, 1, (-9, 7), (-2048, 2047)), form) is None  # other results
    assert shift_in_form(steps_of_shift(4, 1, (-8, 7), (-2049, 2047)), form) is None  # other arguments
    assert shift_in_form(steps_of_shift(3, 1, (-8, 7), (-2048, 2047)), form) is None  # another function
