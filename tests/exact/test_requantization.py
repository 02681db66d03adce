"""Circuits for requantizers: proven, exhaustively right, narrow; wrong constants are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.loadable_line import digits_of
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer, table, thresholds
from onnx_hw.exact.multiply_add_shift import WIDEST_MULTIPLIER, MultiplyAddShift, _Constraints, find
from onnx_hw.exact.requantization import LARGEST_TABLE, Requantizer, area, choose, costs, prove
from onnx_hw.exact.step_function import Steps, steps
from support.exact_requantization import Formula, formulas


def candidates(exact: Steps) -> list[Requantizer]:
    """Every form there is of a function."""
    found = find(exact)
    return [thresholds(exact), table(exact), *([found] if found else [])]


def assert_equal_everywhere(circuit: Requantizer, formula: Formula, exact: Steps) -> None:
    channel, x = formula.arguments()
    assert np.array_equal(circuit.apply(channel, x), exact.at(channel, x))


@settings(max_examples=80)
@given(formulas())
def test_every_form_is_right_for_every_argument(formula: Formula) -> None:
    exact = formula.steps()
    for circuit in candidates(exact):
        assert_equal_everywhere(circuit, formula, exact)
        assert prove(circuit, exact) > 0


@settings(max_examples=40)
@given(formulas())
def test_the_cheapest_is_chosen(formula: Formula) -> None:
    exact = formula.steps()
    chosen = choose(exact)
    assert_equal_everywhere(chosen, formula, exact)
    assert area(chosen) <= min(area(circuit) for circuit in candidates(exact))


@pytest.mark.parametrize("slope", [Fraction(1, 256), Fraction(3, 700), Fraction(1, 300), Fraction(7, 2**11)])
@pytest.mark.parametrize("offset", [Fraction(0), Fraction(1, 2), Fraction(-77, 3)])
def test_all_of_sixteen_bits(slope: Fraction, offset: Fraction) -> None:
    formula = Formula((slope,), (offset,), -3, -128, 127, -(1 << 15), (1 << 15) - 1)
    exact = formula.steps()
    channel, x = formula.arguments()
    wanted = np.array([formula.value(0, v) for v in x.tolist()])
    assert np.array_equal(exact.at(channel, x), wanted)
    for circuit in candidates(exact):
        assert np.array_equal(circuit.apply(channel, x), wanted)


@settings(max_examples=80)
@given(formulas())
def test_declared_widths_hold_every_number(formula: Formula) -> None:
    """The circuit may build exactly these widths: x, m, c, x·m, the sum and the corrected sum all fit."""
    circuit = find(formula.steps())
    if circuit is None:
        return
    total = circuit.sum_type
    for m, c in zip(circuit.multipliers, circuit.addends, strict=True):
        assert circuit.multiplier_type.min <= m <= circuit.multiplier_type.max
        assert circuit.addend_type.min <= c <= circuit.addend_type.max
        for x in (circuit.clamp.min, circuit.clamp.max):
            correction = 0 if circuit.tie_bit is None else 1 << circuit.tie_bit
            for number in (x * m, x * m + c, x * m + c - correction):
                assert total.min <= number <= total.max


# ---- the forms --------------------------------------------------------------------------------------------------


def test_powers_of_two_need_one_digit_and_a_tie_correction() -> None:
    exact = Formula((Fraction(1, 32),), (Fraction(0),), 5, -128, 127, -9000, 9000).steps()
    circuit = find(exact)
    assert circuit is not None and circuit.digits == 1
    assert (circuit.shift, circuit.tie_bit, circuit.tie_parity) == (5, 0, 0)  # k − 5 is odd where k is even


def test_powers_of_two_of_their_own_per_channel_stay_narrow() -> None:
    slopes = tuple(Fraction(1, 2**k) for k in (3, 5, 6))
    circuit = find(Formula(slopes, (Fraction(0),), 0, -128, 127, -9000, 9000).steps())
    assert circuit is not None and circuit.multiplier_type.bits <= 4


def test_averages_with_ties_need_an_early_correction() -> None:
    circuit = find(Formula((Fraction(1, 36),), (Fraction(0),), 0, -128, 127, -4608, 4572).steps())
    assert circuit is not None and circuit.tie_bit is not None and circuit.tie_bit > 0


def test_a_small_range_is_a_look_up() -> None:
    chosen = choose(Formula((Fraction(5, 6), Fraction(2, 3)), (Fraction(0),), 0, 0, 15, 0, 19).steps())
    assert isinstance(chosen, TableRequantizer)


def test_constants_per_channel_of_a_wide_layer_are_multiplied() -> None:
    slopes = tuple(Fraction(k + 1000, 1000003) for k in range(64))
    exact = Formula(slopes, (Fraction(0),), 0, -128, 127, -(1 << 20), 1 << 20).steps()
    assert isinstance(choose(exact), MultiplyAddShift)
    assert exact.channels << Int.holding(*exact.active_range).bits > LARGEST_TABLE


def test_constant_functions() -> None:
    for formula in (
        Formula((Fraction(0),), (Fraction(9),), 0, -8, 7, -500, 500),
        Formula((Fraction(1),), (Fraction(0),), 0, 3, 3, -500, 500),
        Formula((Fraction(1, 10**6), Fraction(1)), (Fraction(0),), 0, -8, 7, -500, 500),
    ):
        exact = formula.steps()
        for circuit in candidates(exact):
            assert_equal_everywhere(circuit, formula, exact)


def test_arguments_beyond_sixty_four_bit_products() -> None:
    """Thirty-bit accumulators and multipliers: the search leaves int64."""
    slopes = tuple(Fraction(k, 3 * 2**44 + 7) for k in (6 * 10**6, 7 * 10**6))
    exact = Formula(slopes, (Fraction(1, 3),), 0, -128, 127, -(1 << 30), 1 << 30).steps()
    circuit = find(exact)
    assert circuit is not None and circuit.sum_type.bits > 62
    prove(circuit, exact)


def test_multipliers_are_a_few_bits_wider_than_the_arguments() -> None:
    """Random scales, arguments of n bits that use the whole range: n + 3 .. n + 7 bits, and rarely more."""
    draw = random.Random(1)
    for bits in (14, 20):
        widths = []
        for _ in range(60):
            slope = Fraction(draw.randrange(10**8, 2 * 10**8), 2 * 10**8 + 1) * Fraction(256, 1 << bits)
            offset = Fraction(draw.randrange(-(10**6), 10**6), 10**5)
            half = 1 << (bits - 1)
            circuit = find(Formula((slope,), (offset,), 0, -128, 127, -half, half - 1).steps())
            assert circuit is not None and circuit.tie_bit is None
            widths.append(circuit.multiplier_type.bits)
        assert median(widths) <= bits + 4 and max(widths) <= bits + 8


def test_digits_of_a_multiplier() -> None:
    """n digits of −1, 0, 1 and 2 make every number up to 22…2 in base 4."""
    for digits in range(1, 5):
        numbers = {sum(d * 4**k for k, d in enumerate(chosen)) for chosen in product((-1, 0, 1, 2), repeat=digits)}
        longest = max(number for number in range(4**digits) if digits_of(number) == digits)
        assert longest == max(numbers) and set(range(longest + 1)) <= numbers
        assert digits_of(longest + 1) == digits + 1


def test_useful_steps() -> None:
    """13 digits: three at a time take five steps; six steps would have three at a time too."""
    slopes = tuple(Fraction(k + 1000, 1000003) for k in range(8))
    circuit = find(Formula(slopes, (Fraction(0),), 0, -128, 127, -(1 << 18), 1 << 18).steps())
    assert circuit is not None and circuit.digits == 13
    assert circuit.useful_steps == (1, 2, 3, 4, 5, 7, 13)
    assert [circuit.rows(steps) for steps in circuit.useful_steps] == [13, 7, 5, 4, 3, 2, 1]


def test_addends_are_as_round_as_the_multipliers_allow() -> None:
    """The least multiplier leaves an addend hardly any room; a better one of the same length saves memory."""
    draw = random.Random(3)
    slopes = tuple(Fraction(draw.randrange(500, 1000), 1000003) for _ in range(64))
    offsets = tuple(Fraction(draw.randrange(-(10**6), 10**6), 10**4) for _ in slopes)
    exact = Formula(slopes, offsets, 0, -128, 127, -(1 << 18), 1 << 18).steps()
    circuit = find(exact)
    assert circuit is not None
    assert circuit.addend_bits <= 28 <= circuit.addend_type.bits
    constraints = _Constraints.of(exact, WIDEST_MULTIPLIER)
    least = constraints.least_multipliers(circuit.shift, None)
    assert least is not None and int(least.max()).bit_length() == circuit.multiplier_type.bits
    assert (least <= circuit.multipliers.astype(np.int64)).all()
    for m in circuit.multipliers.astype(np.int64) + np.arange(-40, 41)[:, np.newaxis]:  # no neighbour leaves more room
        assert (room(constraints, m, circuit.shift) <= room(constraints, circuit.multipliers, circuit.shift)).all()


def room(constraints: _Constraints, multipliers: np.ndarray, shift: int) -> np.ndarray:
    lower, upper = constraints.bounds(multipliers.astype(np.int64), shift, None)
    return upper.min(axis=1) - lower.max(axis=1)


def test_slower_is_smaller_and_few_channels_need_little_memory() -> None:
    slopes = tuple(Fraction(k + 1000, 1000003) for k in range(256))
    offsets = tuple(Fraction(k * k % 251, 7) for k in range(256))
    circuit = find(Formula(slopes, offsets, 0, -128, 127, -(1 << 18), 1 << 18).steps())
    assert circuit is not None
    sizes = [costs(circuit, 32, steps).lut for steps in (1, 2, 3, 4, 7)]
    assert sizes == sorted(sizes, reverse=True)
    blocks = [costs(circuit, channels, 7).bram for channels in (1, 8, 64, 128, 256)]
    assert blocks[:3] == [0, 0, 0] and blocks[3] >= 1 and blocks == sorted(blocks)


# ---- wrong constants --------------------------------------------------------------------------------------------

LAYER = Formula(
    tuple(Fraction(k, 1 << 13) for k in (37, 41, 32)), (Fraction(0), Fraction(5, 2), Fraction(-9)), 4, -128, 127,
    -40000, 40000,
)  # fmt: skip


def changed(array: np.ndarray, place: tuple[int, ...], by: int) -> np.ndarray:
    copy = array.copy()
    copy[place] += by
    return copy


@pytest.mark.parametrize("channel", [0, 1, 2])
@pytest.mark.parametrize("by", [1, -1])
def test_a_wrong_multiplier_is_refused(channel: int, by: int) -> None:
    exact = LAYER.steps()
    circuit = find(exact)
    assert circuit is not None
    wrong = replace(circuit, multipliers=changed(circuit.multipliers, (channel,), by))
    with pytest.raises(ValueError, match=rf"the requantizer must give .* in channel {channel}, not"):
        prove(wrong, exact)


def test_wrong_addends_shifts_ties_and_clamps_are_refused() -> None:
    exact = LAYER.steps()
    circuit = find(exact)
    assert circuit is not None and circuit.tie_bit is not None
    step = int(circuit.multipliers[1])
    for wrong in (
        replace(circuit, addends=changed(circuit.addends, (1,), step)),
        replace(circuit, addends=changed(circuit.addends, (1,), -step)),
        replace(circuit, shift=circuit.shift + 1),
        replace(circuit, tie_bit=None),
        replace(circuit, tie_parity=1 - circuit.tie_parity),
        replace(circuit, clamp=Int(circuit.clamp.bits - 1)),
        replace(circuit, high=126),
        replace(circuit, low=-127),
    ):
        with pytest.raises(ValueError, match="the requantizer must give"):
            prove(wrong, exact)


def test_forms_that_are_not_monotone_are_refused() -> None:
    exact = LAYER.steps()
    circuit, search = find(exact), thresholds(exact)
    assert circuit is not None
    with pytest.raises(ValueError, match="no multiplier may be negative"):
        prove(replace(circuit, multipliers=-circuit.multipliers), exact)
    with pytest.raises(ValueError, match="the tie bit must be in"):
        prove(replace(circuit, tie_bit=circuit.shift + 1), exact)
    with pytest.raises(ValueError, match="thresholds must ascend"):
        prove(replace(search, thresholds=search.thresholds[:, ::-1]), exact)
    with pytest.raises(ValueError, match="must serve 3 channels, not 1"):
        prove(choose(replace(exact, thresholds=exact.thresholds[:1])), exact)


@pytest.mark.parametrize("place", [(0, 0), (1, 130), (2, 254)])
@pytest.mark.parametrize("by", [1, -1])
def test_a_wrong_threshold_is_refused(place: tuple[int, int], by: int) -> None:
    exact = LAYER.steps()
    search: ThresholdRequantizer = thresholds(exact)
    with pytest.raises(ValueError, match=f"in channel {place[0]}, not"):
        prove(replace(search, thresholds=changed(search.thresholds, place, by)), exact)


def test_any_wrong_entry_of_a_table_is_refused() -> None:
    exact = Formula((Fraction(1, 7), Fraction(1, 5)), (Fraction(0),), 0, 0, 15, 0, 127).steps()
    right = table(exact)
    prove(right, exact)
    for place in np.ndindex(right.entries.shape):
        if place[1] + right.clamp.min <= exact.last:
            with pytest.raises(ValueError, match="the requantizer must give"):
                prove(replace(right, entries=changed(right.entries, place, 1)), exact)


def test_results_of_sixteen_bits_are_a_multiplication_too() -> None:
    """65,535 steps on a line leave a multiplier little room; results of 8 bits are looked for in 36 bits alone."""
    slopes = [Fraction(k, 2**28 + 3) for k in (40_007, 50_021, 33_331)]
    wide = steps(slopes, [Fraction(77, 9)], Grid.over(Int(16), zero_point=-3), -(1 << 27), (1 << 27) - 1)
    chosen = choose(wide)
    assert isinstance(chosen, MultiplyAddShift) and 36 < chosen.multiplier_type.bits <= 48
    assert costs(chosen, 3).bram == 0
    assert prove(chosen, wide) > 2 * 3 * 65_000
    wrong = replace(chosen, addends=chosen.addends + np.array([0, 1 << chosen.shift - 4, 0], dtype=object))
    with pytest.raises(ValueError, match="in channel 1, not"):
        prove(wrong, wide)
