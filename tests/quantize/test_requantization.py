"""Exact requantization: thresholds against plain rationals, circuits against thresholds, wrong constants refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.integers import Int
from onnx_hw.network import Tensor
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantize import lookups, multiply_add_shift
from onnx_hw.quantize.requantization import choose, prove
from onnx_hw.quantize.steps import Steps, steps


def half_to_even(value: Fraction) -> int:
    """Written anew, so that the tests do not lean on ``round``."""
    below = floor(value)
    rest = value - below
    if rest == Fraction(1, 2):
        return below + below % 2
    return below + (rest > Fraction(1, 2))


def meaning(multiplier: Fraction, offset: Fraction, zero_point: int, low: int, high: int, x: int) -> int:
    return min(max(half_to_even(multiplier * x + offset) + zero_point, low), high)


float32 = st.floats(2.0**-20, 4.0, width=32).map(Fraction)
ties = st.integers(0, 12).map(lambda n: Fraction(1, 1 << n))
odd_ties = st.builds(Fraction, st.integers(1, 9), st.sampled_from([2, 6, 12, 36, 100]))
scales = st.one_of(float32, ties, odd_ties)
offsets = st.one_of(
    st.integers(-300, 300).map(Fraction), st.builds(Fraction, st.integers(-500, 500), st.sampled_from([2, 3, 8, 1000]))
)


@st.composite
def functions(draw: st.DrawFn, widest: int = 16) -> tuple[Steps, list[tuple[Fraction, Fraction, int, int, int]]]:
    """(thresholds, what they mean per channel) over ranges of at most 2^widest arguments."""
    bits = draw(st.integers(2, widest))
    first = draw(st.integers(-(1 << bits), 0))
    last = first + (1 << bits) - 1
    dtype = draw(st.sampled_from([Int(8), Int(8, signed=False), Int(4), Int(2)]))
    low = draw(st.integers(dtype.min, dtype.max))
    high = draw(st.integers(low, dtype.max))
    zero_point = draw(st.integers(dtype.min, dtype.max))
    channels = draw(st.integers(1, 3))
    constants = [(draw(scales), draw(offsets)) for _ in range(channels)]
    exact = steps(
        [m for m, _ in constants],
        [c for _, c in constants],
        zero_point=zero_point,
        low=low,
        high=high,
        first=first,
        last=last,
    )
    return exact, [(m, c, zero_point, low, high) for m, c in constants]


def arguments(exact: Steps, count: int = 300) -> list[int]:
    """All of a short range; of a longer one a sample, with the neighbourhood of every threshold."""
    if exact.last - exact.first < count:
        return list(range(exact.first, exact.last + 1))
    near = {int(t) + d for t in exact.thresholds.reshape(-1)[:60] for d in (-1, 0, 1)}
    spread = np.linspace(exact.first, exact.last, count).astype(int).tolist()
    return sorted(x for x in near | set(spread) if exact.first <= x <= exact.last)


@settings(max_examples=150)
@given(functions())
def test_thresholds_are_the_function(case: tuple[Steps, list[tuple[Fraction, Fraction, int, int, int]]]) -> None:
    exact, constants = case
    xs = arguments(exact)
    for channel, (multiplier, offset, zero_point, low, high) in enumerate(constants):
        found = exact.at(np.full(len(xs), channel), np.array(xs))
        assert found.tolist() == [meaning(multiplier, offset, zero_point, low, high, x) for x in xs]


@settings(max_examples=60)
@given(functions())
def test_the_chosen_circuit_is_exact_for_every_argument(
    case: tuple[Steps, list[tuple[Fraction, Fraction, int, int, int]]],
) -> None:
    exact, _ = case
    circuit = choose(exact)
    every = np.arange(exact.first, exact.last + 1)
    for channel in range(exact.channels):
        here = np.full(len(every), channel)
        assert np.array_equal(circuit.apply(here, every), exact.at(here, every))


@settings(max_examples=40)
@given(functions(widest=10))
def test_every_form_is_exact_where_it_exists(
    case: tuple[Steps, list[tuple[Fraction, Fraction, int, int, int]]],
) -> None:
    exact, _ = case
    forms = [lookups.table(exact), lookups.thresholds(exact), multiply_add_shift.find(exact)]
    every = np.arange(exact.first, exact.last + 1)
    for form in forms:
        for channel in range(exact.channels) if form is not None else ():
            here = np.full(len(every), channel)
            assert np.array_equal(form.apply(here, every), exact.at(here, every)), type(form)


def accumulator(bits: int = 18) -> Steps:
    return steps(
        [Fraction(float(np.float32(0.00123)))],
        [Fraction(7, 3)],
        zero_point=-3,
        low=-128,
        high=127,
        first=-(1 << bits),
        last=(1 << bits) - 1,
    )


def test_a_wrong_constant_is_refused() -> None:
    exact = accumulator()
    found = multiply_add_shift.find(exact)
    assert found is not None
    assert prove(found, exact) > 0
    step = 1 << found.shift
    for wrong in (
        replace(found, addends=found.addends + step),
        replace(found, addends=found.addends - step),
        replace(found, multipliers=found.multipliers + max(1, int(found.multipliers[0]) // 256)),
        replace(found, shift=found.shift + 1),
        replace(found, high=found.high - 1),
        replace(found, clamp=Int(found.clamp.bits - 2)),
    ):
        with pytest.raises(ValueError, match="the requantizer must give"):
            prove(wrong, exact)


def test_rounding_half_up_is_refused_where_ties_occur() -> None:
    exact = steps([Fraction(1, 16)], [Fraction(0)], zero_point=0, low=-128, high=127, first=-4096, last=4095)
    found = multiply_add_shift.find(exact)
    assert found is not None and found.tie_bit is not None
    with pytest.raises(ValueError, match="the requantizer must give"):
        prove(replace(found, tie_bit=None), exact)
    with pytest.raises(ValueError, match="the requantizer must give"):
        prove(replace(found, tie_parity=1 - found.tie_parity), exact)


def test_thresholds_and_tables_are_checked_too() -> None:
    exact = accumulator(8)
    table, search = lookups.table(exact), lookups.thresholds(exact)
    entries = table.entries.copy()
    entries[0, 5] += 1
    with pytest.raises(ValueError, match="the requantizer must give"):
        prove(replace(table, entries=entries), exact)
    middle = int(np.flatnonzero(exact.reached[0] & exact.missed[0])[0])
    rows = search.thresholds.copy()
    rows[0, middle] += 1
    with pytest.raises(ValueError, match=r"the requantizer must give|thresholds must ascend"):
        prove(replace(search, thresholds=rows), exact)


@pytest.mark.parametrize("bits", [14, 20])
def test_multipliers_are_a_few_bits_wider_than_the_accumulator(bits: int) -> None:
    """What the search finds for random scales: accumulator + 3..7 bits."""
    generator = np.random.default_rng(bits)
    widths = []
    for _ in range(40):
        scale = Fraction(float(np.float32(generator.uniform(1, 2) * 240 / (1 << bits))))
        exact = steps(
            [scale], [Fraction(0)], zero_point=0, low=-128, high=127, first=-(1 << bits - 1), last=(1 << bits - 1) - 1
        )
        found = multiply_add_shift.find(exact)
        assert found is not None
        widths.append(found.multiplier_type.bits)
    assert np.median(widths) <= bits + 5
    assert max(widths) <= bits + 9


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1), scales, offsets, st.integers(-128, 127))
def test_golden_equals_rationals(channels: int, seed: int, scale: Fraction, offset: Fraction, zero_point: int) -> None:
    operand = Tensor((3, 2, channels), Int(14))
    multipliers = tuple(scale * (k + 1) / 3 for k in range(channels))
    operator = Requantize(operand, multipliers, (offset,), -128, 127, zero_point, Int(8))
    x = np.random.default_rng(seed).integers(-8192, 8192, (2, 3, 2, channels))
    (y,) = operator.golden(x)
    expected = [
        meaning(multipliers[c], offset, zero_point, -128, 127, int(x[f, r, k, c]))
        for f, r, k, c in np.ndindex(*x.shape)
    ]
    assert y.reshape(-1).tolist() == expected
