"""Forms of requantizers whose constants are loaded: what they hold is proven, and what they cannot hold is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.loadable_line import LoadableLine, digits_of
from onnx_hw.exact.lookup_requantizers import LoadableTable
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift
from onnx_hw.exact.requantization import in_form, loadable_form, prove
from onnx_hw.exact.step_function import Steps, steps
from support.random_cases import many


def drawn(seed: int, channels: int, operand: Int, *, short: bool = False) -> tuple[Steps, list[Fraction]]:
    """Return a function like that behind a convolution, and its slopes; ``short`` ones as we choose scales."""
    random = np.random.default_rng(seed)
    octaves = random.uniform(7 - operand.bits, 11 - operand.bits, channels)
    if short:
        shift = 10 - int(np.floor(octaves.max()))
        slopes = [Fraction(max(1, round(2.0**octave * 2**shift)), 2**shift) for octave in octaves]
        offsets = [Fraction(2 * int(n) + 1, 2 ** (shift + 1)) for n in random.integers(-9999, 9999, channels)]
    else:
        slopes = [Fraction(float(np.float32(2.0**octave))) for octave in octaves]
        offsets = [Fraction(float(np.float32(n))) for n in random.normal(0, 30, channels)]
    grid = Grid.over(Int(8), zero_point=int(random.integers(-128, 20)))
    return steps(slopes, offsets, grid, operand.min, operand.max), slopes


@many
@given(st.integers(0, 999), st.sampled_from([1, 8, 16]), st.sampled_from([16, 19, 22]), st.booleans())
def test_constants_of_others_fit_a_form(seed: int, channels: int, bits: int, short: bool) -> None:
    """The proof is that of every requantizer: both sides of every step; and again here, against the function."""
    operand = Int(bits)
    first, slopes = drawn(seed, channels, operand, short=short)
    form = loadable_form(first, operand, Int(8), slopes if short else ())
    assert isinstance(form, LoadableLine) and form.clamp == operand
    for other in range(3):
        exact, _ = drawn(seed * 7 + other + 1000, channels, operand, short=short)
        circuit = in_form(exact, form)
        if circuit is None:  # one in some hundred needs finer slopes than the form has
            continue
        assert isinstance(circuit, MultiplyAddShift) and circuit.form == form
        assert max(digits_of(int(m)) for m in circuit.multipliers) <= form.digits
        assert all(form.addend.min <= int(c) <= form.addend.max for c in circuit.addends)
        assert all(int(c) % (1 << form.zeros) == 0 for c in circuit.addends)
        channel, x = exact.witnesses()
        assert (circuit.apply(channel, x) == exact.at(channel, x)).all()
        assert circuit.sum_type.bits == form.addend.bits + 1 and circuit.multiplier_type.bits >= form.digits


def test_most_functions_fit() -> None:
    """Of 300 drawn functions of the kind of another one, 4 or fewer need finer slopes than it leaves room for."""
    missing = total = 0
    for seed in range(10):
        operand = Int(20)
        first, _ = drawn(seed, 16, operand)
        form = loadable_form(first, operand, Int(8))
        assert form is not None
        for other in range(30):
            missing += in_form(drawn(1000 + 30 * seed + other, 16, operand)[0], form) is None
            total += 1
    assert total == 300 and missing <= 4


def test_a_small_operand_gets_a_table() -> None:
    exact, _ = drawn(3, 4, Int(8))
    form = loadable_form(exact, Int(8), Int(8))
    assert form == LoadableTable(4, Int(8), Int(8))
    circuit = in_form(exact, form)
    assert circuit is not None and prove(circuit, exact) == 4 * 258


def test_what_a_form_cannot_hold_is_refused() -> None:
    exact, _ = drawn(4, 8, Int(20))
    form = loadable_form(exact, Int(20), Int(8))
    assert isinstance(form, LoadableLine)
    assert in_form(drawn(4, 16, Int(20))[0], form) is None  # other channels
    assert in_form(drawn(4, 8, Int(22))[0], form) is None  # other arguments
    steep = steps([Fraction(4)], [Fraction(0)], Grid.over(Int(8)), Int(20).min, Int(20).max)
    assert (
        in_form(Steps(steep.first, steep.last, steep.low, steep.high, np.repeat(steep.thresholds, 8, 0)), form) is None
    )
    table = LoadableTable(1, Int(8), Int(4))
    assert in_form(drawn(4, 1, Int(8))[0], table) is None  # wider results


def test_ties_without_a_line_have_no_form() -> None:
    """With a slope of 2^-5, every step is a tie."""
    exact = steps([Fraction(1, 32)], [Fraction(0)], Grid.over(Int(8)), -(1 << 15), (1 << 15) - 1)
    assert loadable_form(exact, Int(16), Int(8)) is None


@pytest.mark.parametrize("slope", [Fraction(0), Fraction(1, 1 << 30)])
def test_a_function_that_is_constant_fits(slope: Fraction) -> None:
    exact, _ = drawn(5, 4, Int(20))
    form = loadable_form(exact, Int(20), Int(8))
    assert form is not None
    dead = steps([slope] * 4, [Fraction(9)] * 4, Grid.over(Int(8)), Int(20).min, Int(20).max)
    circuit = in_form(dead, form)
    assert circuit is not None and prove(circuit, dead)


@many
@given(st.integers(0, 999), st.sampled_from([16, 20]), st.data())
def test_bounds_are_loaded(seed: int, bits: int, data: st.DataObject) -> None:
    """A form of a function with bounds holds those of others, with none, and with one value only."""
    operand, values = Int(bits), st.integers(-128, 127)
    low, high = sorted((data.draw(values), data.draw(values)))
    first = within(drawn(seed, 8, operand)[0], -128, data.draw(st.integers(-127, 126)))
    form = loadable_form(first, operand, Int(8))
    assert isinstance(form, LoadableLine) and form.loads_bounds and (form.low, form.high) == (-128, 127)
    for other, bounds in enumerate(((low, high), (-128, 127), (low, low))):
        exact = within(drawn(seed * 7 + other + 1000, 8, operand)[0], *bounds)
        circuit = in_form(exact, form)
        if circuit is not None:
            assert isinstance(circuit, MultiplyAddShift) and prove(circuit, exact) > 0
            assert (circuit.low, circuit.high) == (bounds if bounds[0] < bounds[1] else (-128, 127))


def within(exact: Steps, low: int, high: int) -> Steps:
    """Return a function with bounds."""
    rows = exact.thresholds[:, low - exact.low : high - exact.low]
    return Steps(exact.first, exact.last, low, high, rows, exact.parity)


def test_a_function_that_may_have_bounds_gets_a_form_for_them() -> None:
    exact, _ = drawn(9, 8, Int(20))
    plain, bounded = (loadable_form(exact, Int(20), Int(8), bounded=asked) for asked in (False, True))
    assert isinstance(plain, LoadableLine) and isinstance(bounded, LoadableLine)
    assert not plain.loads_bounds and bounded.loads_bounds
    assert in_form(within(exact, -128, 90), bounded) is not None and in_form(within(exact, -128, 90), plain) is None
