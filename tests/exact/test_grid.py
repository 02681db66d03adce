"""Grids and their rounding against definitions in exact rationals, and against the operators that state them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, inf, trunc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.requantization import choose, prove
from onnx_hw.exact.rounding import Rounding
from onnx_hw.exact.step_function import steps
from onnx_hw.onnx.operators.qonnx import BipolarQuant, Quant
from onnx_hw.onnx.operators.quantization import QuantizeLinear

HALF = Fraction(1, 2)


def away(number: Fraction, of_size: Callable[[Fraction], int]) -> int:
    return of_size(abs(number)) * (1 if number >= 0 else -1)


WITNESSES: dict[Rounding, Callable[[Fraction], int]] = {
    Rounding.ROUND: round,
    Rounding.HALF_UP: lambda v: away(v, lambda size: floor(size + HALF)),
    Rounding.HALF_DOWN: lambda v: away(v, lambda size: ceil(size - HALF)),
    Rounding.FLOOR: floor,
    Rounding.CEIL: ceil,
    Rounding.UP: lambda v: away(v, ceil),
    Rounding.DOWN: trunc,
}


def witness(grid: Grid, number: Fraction, channel: int = 0) -> int:
    """By the definition, with zero points added where the mode says."""
    zero = grid.zero_point[channel % len(grid.zero_point)]
    counted = number / grid.step[channel % len(grid.step)]
    if grid.rounding is Rounding.HALF_EVEN:
        rounded = round(counted + zero - floor(zero)) + floor(zero)
    else:
        rounded = WITNESSES[grid.rounding](counted + zero)
    return min(max(rounded, grid.low), grid.high)


modes = st.sampled_from(Rounding)
types = st.builds(Int, st.integers(1, 16), st.booleans())
zeros = st.one_of(st.integers(-9, 9).map(Fraction), st.fractions(-9, 9, max_denominator=4))
fine = st.one_of(st.fractions(Fraction(1, 64), 8, max_denominator=64), st.sampled_from([Fraction(1, 2), Fraction(2)]))


@st.composite
def grids(draw: st.DrawFn, channels: int = 1, types: st.SearchStrategy[Int] = types) -> Grid:
    counts = [draw(st.sampled_from([1, channels])) for _ in range(2)]
    step, zero = (
        draw(st.lists(numbers, min_size=n, max_size=n)) for numbers, n in zip((fine, zeros), counts, strict=True)
    )
    grid = Grid.over(draw(types), step, zero, draw(modes))
    low, high = sorted(draw(st.tuples(*[st.integers(grid.low, grid.high)] * 2)))
    return grid.within(low, high)


@settings(max_examples=150)
@given(grids(3), st.integers(0, 2), st.integers(-600, 600), st.integers(1, 12))
def test_any_number_becomes_what_the_definition_says(grid: Grid, channel: int, numerator: int, parts: int) -> None:
    """Numbers about 0, on the grid, half between, and elsewhere."""
    channel %= grid.channels
    step = grid.step[channel % len(grid.step)]
    number = step * Fraction(numerator, parts)
    assert grid.integer(number, channel) == witness(grid, number, channel)


@settings(max_examples=60)
@given(grids(3), st.data())
def test_what_an_integer_stands_for_becomes_that_integer(grid: Grid, data: st.DataObject) -> None:
    integer = data.draw(st.integers(grid.low, grid.high))
    for channel in range(grid.channels):
        real = grid.real(integer, channel)
        assert grid.integer(real, channel) == integer
        slope, offset = grid.lines()[channel]
        zero = grid.zero_point[channel % len(grid.zero_point)]
        assert real == slope * integer + offset == grid.step[channel % len(grid.step)] * (integer - zero)


@settings(max_examples=60)
@given(grids(3), st.lists(st.integers(-4000, 4000), min_size=1, max_size=20))
def test_floats_that_divide_exactly_become_the_same(grid: Grid, eighths: list[int]) -> None:
    """A whole power of two for a step, and quarters for zero points: no float is rounded but to an integer."""
    power = [Fraction(2) ** round(float(step)) for step in grid.step]
    quarters = [Fraction(round(4 * zero), 4) for zero in grid.zero_point]
    grid = Grid(tuple(power), tuple(quarters), grid.low, grid.high, grid.dtype, grid.rounding)
    numbers = np.array([[e / 8 for e in eighths]] * grid.channels)
    found = grid.integers(numbers)
    assert found.dtype == np.int64
    for channel in range(grid.channels):
        assert found[channel].tolist() == [witness(grid, Fraction(e, 8), channel) for e in eighths]
    assert np.array_equal(grid.integers(numbers.T, axis=1), found.T)


@settings(max_examples=60)
@given(grids(3), st.integers(0, 1), st.integers(0, 5), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_integers_are_the_same_whatever_the_block(grid: Grid, axis: int, others: int, block: int, seed: int) -> None:
    shape = [others, others]
    shape[axis] = grid.channels
    numbers = np.random.default_rng(seed).normal(0, 9, (*shape, 2))
    wanted = grid.integers(numbers, axis)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnx_hw.exact.grid.BLOCK", block)
        found = grid.integers(numbers, axis, np.int32)
    assert found.dtype == np.int32 and np.array_equal(found, wanted)


@settings(max_examples=30)
@given(
    grids(3, st.builds(Int, st.integers(1, 5), st.booleans())),
    st.lists(st.fractions(0, 3, max_denominator=36), min_size=1, max_size=1),
    st.lists(st.fractions(-40, 40, max_denominator=8), min_size=3, max_size=3),
)
def test_requantizers_of_any_grid(grid: Grid, slope: list[Fraction], offset: list[Fraction]) -> None:
    """Every argument, of three channels; and the cheapest circuit is proven equal."""
    exact = steps(slope, offset, grid, -60, 60)
    x = np.arange(-60, 61)
    for channel in range(3):
        wanted = [witness(grid, slope[0] * int(v) + offset[channel], channel) for v in x]
        assert exact.at(np.full(x.shape, channel), x).tolist() == wanted
    assert prove(choose(exact), exact) > 0


def test_ties() -> None:
    """By hand: −1.5, −½, ½ and 1½ steps, counted from a zero point of 1."""
    found = {
        mode: [Grid.over(Int(4), 2, 1, mode).integer(Fraction(k)) - 1 for k in (-3, -1, 1, 3)] for mode in Rounding
    }
    assert found == {
        Rounding.HALF_EVEN: [-2, 0, 0, 2],
        Rounding.ROUND: [-1, -1, 1, 1],  # of the integers −½, ½, 1½ and 2½: 0, 0, 2, 2
        Rounding.HALF_UP: [-2, 0, 1, 2],
        Rounding.HALF_DOWN: [-1, -1, 0, 1],
        Rounding.FLOOR: [-2, -1, 0, 1],
        Rounding.CEIL: [-1, 0, 1, 2],
        Rounding.UP: [-2, 0, 1, 2],
        Rounding.DOWN: [-1, -1, 0, 1],
    }


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_quantize_linear(dtype: str) -> None:
    limits = np.iinfo(dtype)
    zero = np.array(3, dtype=dtype)
    numbers = (np.arange(-2000, 2000) / 4).astype(np.float32)
    given = QuantizeLinear(numbers, np.array(0.5, dtype=np.float32), zero)
    grid = Grid.over(Int(limits.bits, limits.min < 0), HALF, 3)
    assert grid.integers(numbers).tolist() == given.tolist()
    assert [grid.integer(float(number)) for number in numbers[::7]] == given[::7].tolist()


@pytest.mark.parametrize("mode", [mode for mode in Rounding if mode is not Rounding.HALF_EVEN])
@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "zero"), [(5, 1, 1, 0), (3, 0, 0, 2), (7, 1, 0, -5), (10, 0, 1, 0)]
)
def test_quant_of_qonnx(mode: Rounding, bits: int, signed: int, narrow: int, zero: int) -> None:
    numbers = np.arange(-400, 400) / 8
    parameters = (np.array(0.25), np.array(float(zero)), np.array(float(bits)))
    given = Quant(numbers, *parameters, narrow=narrow, rounding_mode=mode.name, signed=signed)
    whole = Grid.over(Int(bits, bool(signed)), Fraction(1, 4), zero, mode)
    grid = whole.within(whole.low + narrow * signed, whole.high - narrow * (1 - signed))
    assert [float(grid.real(k)) for k in grid.integers(numbers).tolist()] == given.tolist()


def test_bipolar_values_take_one_bit() -> None:
    grid = Grid.over(Int(1, signed=False), 2, HALF, Rounding.HALF_UP)
    numbers = np.array([-7.5, -1.0, -0.125, 0.0, 0.125, 1.0, 9.0])
    assert [float(grid.real(k)) for k in grid.integers(numbers).tolist()] == BipolarQuant(
        numbers, np.array(1.0)
    ).tolist()
    assert (grid.real(0), grid.real(1)) == (-1, 1)


def test_infinite_numbers_and_bounds() -> None:
    grid = Grid.over(Int(8), Fraction(1, 3), -3)
    assert (grid.integer(inf), grid.integer(-inf)) == (127, -128)
    assert grid.integers(np.array([np.inf, -np.inf, 1e300, -1e300])).tolist() == [127, -128, 127, -128]
    bounded = grid.clipped(Fraction(-1, 2), inf)
    assert (bounded.low, bounded.high) == (-5, 127)  # −1½ steps, to the even side
    for k in range(-200, 200):
        assert bounded.integer(Fraction(k, 7)) == grid.integer(max(Fraction(k, 7), Fraction(-1, 2)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Grid.over(Int(8), 0), "must be positive, not 0"),
        (lambda: Grid.over(Int(8), (1, -2)), "must be positive, not -2"),
        (lambda: Grid.over(Int(8)).within(0, 128), r"the range 0\.\.128 must lie within i8"),
        (lambda: Grid.over(Int(8)).within(1, 0), r"the range 1\.\.0"),
        (lambda: Grid.over(Int(8), (1, 2), (0, 0, 0)), r"must be equal, or 1, not \[2, 3\]"),
        (lambda: Grid.over(Int(8), ()), "must be equal, or 1"),
        (lambda: Grid.over(Int(8), (1, 2)).clipped(Fraction(0), inf), "no common bounds"),
    ],
)
def test_what_is_no_grid(wrong: Callable[[], Grid], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


def test_it_says_what_it_is() -> None:
    assert repr(Grid.over(Int(8), HALF, 3)) == "-128..127 as i8, step 0.5, zero point 3"
    assert repr(Grid.over(Int(4), (1, 2, 3, 4))) == "-8..7 as i4, step 1, 2, 3 ... of 4 channels, zero point 0"
