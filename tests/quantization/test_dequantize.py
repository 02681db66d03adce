"""Real numbers of integers in float64, beside exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.lower.values.real import Real

slopes = st.builds(lambda m, e: Fraction(m) * Fraction(10) ** e, st.integers(1, 10**6), st.integers(-36, 30))
rests = st.fractions(min_value=-100, max_value=100, max_denominator=10**9)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(slopes, st.integers(-128, 127), rests), min_size=1, max_size=3))
def test_nothing_cancels_out_however_steep_a_line_is(lines) -> None:  # type: ignore[no-untyped-def]
    slope = tuple(s for s, _, _ in lines)
    offset = tuple(rest - s * zero for s, zero, rest in lines)  # of the number ``rest`` at the integer ``zero``
    integers = np.arange(-128, 128)
    numbers = Real("x", (1, len(lines)), np.arange(len(lines)), slope, offset).numbers(integers[None, :])
    for row, s, o in zip(numbers, slope, offset, strict=True):
        for integer, number in zip(integers.tolist(), row.tolist(), strict=True):
            exact = s * integer + o
            assert abs(Fraction(number) - exact) <= max(abs(exact), min(s, abs(o))) * Fraction(1, 10**15)
