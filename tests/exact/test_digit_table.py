"""Products with digits that are looked up: the same function as the multiplication, argument by argument."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onnx_hw.exact.digit_table import DIGIT_BITS, FIRST, LAST, OTHER, DigitTable, digit_table
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift, find
from onnx_hw.exact.requantization import prove
from onnx_hw.exact.step_function import Steps, steps


def function(operand: Int, slopes: list[Fraction], offsets: list[Fraction], result: Int = Int(8)) -> Steps:  # noqa: B008
    return steps(tuple(slopes), tuple(offsets), Grid.over(result, zero_point=3), operand.min, operand.max)


@given(
    st.builds(Int, st.integers(2, 11), st.booleans()),
    st.lists(st.fractions(0, 5, max_denominator=997), min_size=1, max_size=3),
    st.fractions(-99, 99, max_denominator=64),
    st.sampled_from(DIGIT_BITS),
)
def test_gives_what_the_definition_says(operand: Int, slopes: list[Fraction], offset: Fraction, bits: int) -> None:
    """Every argument, against real numbers that are rounded half to even."""
    offsets = [offset + k for k in range(len(slopes))]
    exact = function(operand, slopes, offsets)
    line = find(exact, operand)
    assume(line is not None and line.tie_bit is None)
    assert line is not None
    table = digit_table(line, operand, bits)
    assert table is not None
    assert prove(table, exact) > 0
    x = np.arange(operand.min, operand.max + 1)
    for channel, (slope, shifted) in enumerate(zip(slopes, offsets, strict=True)):
        expected = [min(max(round(int(k) * slope + shifted) + 3, -128), 127) for k in x]
        assert table.apply(np.full(len(x), channel), x).tolist() == expected


def wide_table(bits: int = 2) -> tuple[DigitTable, Steps]:
    operand = Int(18)
    exact = function(operand, [Fraction(k, 100_003) for k in (97, 150, 55)], [Fraction(k, 7) for k in (-900, 3, 11)])
    line = find(exact, operand)
    assert line is not None
    table = digit_table(line, operand, bits)
    assert table is not None
    return table, exact


@pytest.mark.parametrize("bits", DIGIT_BITS)
def test_words_are_about_as_wide_as_the_digits_product_or_as_the_argument(bits: int) -> None:
    """The parts of the addend take no more bits than there are: that is what the kinds of steps are for."""
    table, exact = wide_table(bits)
    prove(table, exact)
    product = int(table.words[:, OTHER, 1].max()).bit_length() + bits
    assert table.word_type.bits <= max(product, bits * (table.digits - 1)) + 2
    assert table.sum_type.bits <= table.word_type.bits + 1
    assert len(set(map(table.kind, range(table.digits)))) == min(4, table.digits)


@pytest.mark.parametrize(("kind", "digit"), [(FIRST, 1), (OTHER, 3), (LAST, 2), (LAST, 0)])
def test_a_wrong_word_is_refused(kind: int, digit: int) -> None:
    table, exact = wide_table()
    words = table.words.copy()
    words[1, kind, digit] += 1 << 12
    with pytest.raises(ValueError, match="must be those of one line"):
        prove(replace(table, words=words), exact)


def test_a_wrong_line_is_refused() -> None:
    table, exact = wide_table()
    words = table.words.copy()
    words[1, FIRST] += 1 << 15
    with pytest.raises(ValueError, match=r"must give .* in channel 1"):
        prove(replace(table, words=words), exact)


def test_no_table_has_ties_or_loaded_constants() -> None:
    ties = function(Int(8), [Fraction(1, 16)], [Fraction(0)], Int(4))
    line = find(ties)
    assert line is not None and line.tie_bit is not None
    assert digit_table(line, Int(8), 2) is None


def test_sums_never_leave_their_type() -> None:
    """Every argument of 18 bits, in plain integers."""
    table, _ = wide_table()
    x = np.arange(table.clamp.min, table.clamp.max + 1)
    for channel in range(table.channels):
        total = np.zeros(len(x), dtype=np.int64)
        for step in range(table.digits):
            digit = x >> table.digit_bits * step & (1 << table.digit_bits) - 1
            total = (total >> table.digit_bits) + table.words[channel, table.kind(step)].astype(np.int64)[digit]
            assert table.sum_type.min <= total.min() and total.max() <= table.sum_type.max


def test_a_multiplication_of_loaded_constants_stays_one() -> None:
    table, exact = wide_table()
    line = find(exact)
    assert isinstance(line, MultiplyAddShift)
    loaded = replace(line, form=object())  # type: ignore[arg-type]
    assert digit_table(loaded, table.clamp, 2) is None
