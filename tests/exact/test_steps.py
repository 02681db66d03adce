"""Thresholds against the definition in exact rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.step_function import Steps, steps
from support.exact_requantization import Formula, formulas


@settings(max_examples=80)
@given(formulas(largest=300))
def test_every_argument(formula: Formula) -> None:
    channel, x = formula.arguments()
    expected = [formula.value(c, v) for c, v in zip(channel.tolist(), x.tolist(), strict=True)]
    exact = formula.steps()
    assert exact.at(channel, x).tolist() == expected
    frames = np.stack([x.reshape(formula.channels, -1)[0]] * formula.channels, axis=-1)[np.newaxis]
    assert exact(frames).reshape(-1, formula.channels).T.reshape(-1).tolist() == expected


@settings(max_examples=40)
@given(formulas(largest=300))
def test_nothing_changes_outside_the_busy_range(formula: Formula) -> None:
    low, high = formula.steps().active_range
    for c in range(formula.channels):
        for x in range(formula.first, formula.last + 1):
            assert formula.value(c, x) == formula.value(c, min(max(x, low), high))


def test_ties_go_to_the_even_neighbour_before_the_zero_point_is_added() -> None:
    exact = steps([Fraction(1, 2)], [Fraction(0)], Grid.over(Int(4), zero_point=3), -9, 9)
    assert exact(np.arange(-3, 6)).tolist() == [1, 2, 3, 3, 3, 4, 5, 5, 5]  # rhe: −2 −1 −0 0 0 1 2 2 2


def test_a_slope_of_zero_is_a_constant() -> None:
    exact = steps([Fraction(0)], [Fraction(5, 2)], Grid.over(Int(4), zero_point=-1), -9, 9)
    assert set(exact(np.arange(-9, 10)).tolist()) == {1}


def test_astronomic_offsets_saturate() -> None:
    exact = steps([Fraction(1)], [Fraction(10**40)], Grid.over(Int(4)), -9, 9)
    assert set(exact(np.arange(-9, 10)).tolist()) == {7}


def test_refuses_falling_slopes() -> None:
    with pytest.raises(ValueError, match="must not be negative, not -1/2"):
        steps([Fraction(-1, 2)], [Fraction(0)], Grid.over(Int(1)), 0, 1)


@settings(max_examples=40)
@given(formulas(largest=300), st.integers(0, 2**32 - 1))
def test_a_function_after_another_is_that_of_its_values(formula: Formula, seed: int) -> None:
    generator, first = np.random.default_rng(seed), formula.steps()
    rows = int(generator.choice([1, first.channels])) if first.channels > 1 else int(generator.integers(1, 4))
    ends = first.low - int(generator.integers(0, 3)), first.high + int(generator.integers(0, 3))
    thresholds = np.sort(generator.integers(ends[0], ends[1] + 2, (rows, int(generator.integers(0, 12)))), axis=1)
    second = Steps(*ends, -2, thresholds.shape[1] - 2, thresholds)
    both = second.after(first)
    assert (both.first, both.last) == (first.first, first.last) and both.channels == max(rows, first.channels)
    x = np.arange(first.first, first.last + 1)
    for channel in range(both.channels):
        here = np.full(x.shape, channel)
        values = first.at(np.minimum(here, first.channels - 1), x)
        assert (both.at(here, x) == second.at(np.minimum(here, rows - 1), values)).all()
    assert (np.diff(both.thresholds, axis=1) >= 0).all()
