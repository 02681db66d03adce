"""Requantize: the circuit against the exact function and against the firing law. Its proofs: tests/quantize."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.digit_table import DigitTable
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer, table, thresholds
from onnx_hw.exact.multiply_add_shift import MultiplyAddShift, find
from onnx_hw.exact.step_function import Steps
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.requantize import Requantize, RequantizeFolding, Staircase
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.candidates import in_fewest_blocks
from onnx_hw.schedule.cost_model import Cost
from onnx_hw_boards.families.ice40.recipes import ICE40_UP
from onnx_hw_rtl.cores import digit_table
from onnx_hw_rtl.cores import requantize as circuit
from support.design_bench import Bench, assert_proven, no_stall
from support.hand_built_designs import alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up, beside
from support.random_cases import Case, cases, few, many
from support.random_operators import cuts, tensors


@st.composite
def requantizers(draw: st.DrawFn) -> tuple[Requantize, Folding]:
    """Any scale and offset, one or one per channel, powers of two with their ties among them; any of the circuits."""
    operand = draw(tensors())
    dtype, count = draw(st.builds(Int, st.integers(1, 6), st.booleans())), draw(st.sampled_from([1, operand.channels]))
    low, high = sorted(draw(st.tuples(*[st.integers(dtype.min, dtype.max)] * 2)))
    scales = st.one_of(st.fractions(0, 3, max_denominator=1000), st.sampled_from([Fraction(1, 2**k) for k in range(5)]))
    offsets = st.fractions(-9, 9, max_denominator=64)
    several = {"min_size": count, "max_size": count}
    kind = draw(st.sampled_from([Requantize, ByArithmetic, ByTable, ByThresholds]))
    operator = kind(
        operand,
        tuple(draw(st.lists(scales, **several))),
        tuple(draw(st.lists(offsets, **several))),
        Grid.over(dtype, zero_point=draw(st.integers(dtype.min, dtype.max))).within(low, high),
    )
    steps = 1 if kind in (ByTable, ByThresholds) else draw(st.integers(1, operator.most_steps))
    wide, several, tile = draw(cuts(operand))  # type: ignore[assignment]
    folding = RequantizeFolding(wide, steps, *draw(st.sampled_from([(1, 0), (several, 0), (several, tile)])))
    looked_up = operator.in_blocks(folding, 99 * operand.size) if kind is ByArithmetic else ()
    folding = draw(st.sampled_from([folding, *looked_up, *operator.quicker(folding)]))
    return operator, replace(folding, tile=0) if "tiles" in operator.illegal(folding) else folding


class ByArithmetic(Requantize):
    """As a multiplication, even where a look-up is cheaper."""

    @cached_property
    def circuit(self) -> MultiplyAddShift:
        found = find(self.exact)
        assert found is not None
        return found


class ByTable(Requantize):
    """As a look-up, even where arithmetic is cheaper."""

    @cached_property
    def circuit(self) -> TableRequantizer:
        return table(self.exact)


class ByThresholds(Requantize):
    """As a search, even where arithmetic is cheaper."""

    @cached_property
    def circuit(self) -> ThresholdRequantizer:
        return thresholds(self.exact)


def random_requantize(draw: Random) -> Operator:
    channels, bits = draw.choice((1, 4, 8, 16, 32, 64)), draw.randint(16, 24)
    each = draw.choice((1, channels))
    scales = tuple(Fraction(draw.randrange(400, 3000), 503 << bits - 8) for _ in range(each))
    offsets = tuple(Fraction(draw.randrange(-(10**5), 10**5), 10**3) for _ in range(each))
    operand = Tensor((6, 6, channels), Int(bits))
    return Requantize(operand, scales, offsets, Grid.over(Int(draw.choice((4, 8, 8, 8))), zero_point=0))


def random_requantize_in_blocks(draw: Random) -> Operator:
    """Products with digits that are looked up."""
    while True:
        operator = random_requantize(draw)
        if any(operator.in_blocks(RequantizeFolding(1), 99 * operator.operand.size)):
            return operator


def random_small_requantize(draw: Random) -> Operator:
    """Few steps, or few arguments: thresholds and tables. Of channels that never take a step not all of them are."""
    while True:
        channels, bits = draw.choice((4, 8, 16)), draw.randint(6, 14)
        each = draw.choice((1, channels))
        grid = Int(draw.randint(1, 4))
        scales = tuple(Fraction(draw.randrange(400, 1500), 1009 << max(0, bits - grid.bits)) for _ in range(each))
        offsets = tuple(Fraction(draw.randrange(-(10**3), 10**3), 10**3) for _ in range(each))
        found = Requantize(Tensor((6, 6, channels), Int(bits)), scales, offsets, Grid.over(grid, zero_point=0))
        if (found.exact.missed & found.exact.reached).any():
            return found


SCALES = tuple(Fraction(k, 300) for k in (1, 7, 20, 33, 50))
OFFSETS = tuple(Fraction(k, 3) for k in (0, -5, 7, 1, 100))


def requantize(kind: type[Requantize], operand: Tensor, scales: tuple[Fraction, ...]) -> Requantize:
    return kind(operand, scales, OFFSETS[: len(scales)], Grid.over(Int(4), zero_point=1).within(-7, 7))


@few
@given(cases(requantizers()))
def test_any_requantizer(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("kind", [ByArithmetic, ByTable, ByThresholds])
@pytest.mark.parametrize("lanes", [2, 3, 5])
def test_ragged_cuts_with_constants_per_channel(kind: type[Requantize], lanes: int) -> None:
    Case(requantize(kind, Tensor((3, 3, 5), Int(9)), SCALES), RequantizeFolding(lanes)).check()


@pytest.mark.parametrize("kind", [ByArithmetic, ByTable, ByThresholds])
@pytest.mark.parametrize("scale", [Fraction(1, 16), Fraction(1, 10), Fraction(3), Fraction(0)])
@pytest.mark.parametrize("signed", [True, False])
def test_every_argument(kind: type[Requantize], scale: Fraction, signed: bool) -> None:
    """All 256 of them; at 1/16 every step is a tie, to the even neighbour."""
    dtype = Int(8, signed)
    operator = requantize(kind, Tensor((16, 16, 1), dtype), (scale,))
    every = np.arange(dtype.min, dtype.max + 1).reshape(1, 16, 16, 1)
    design = alone(operator, (1, 1), 16)
    run = Bench(design).prove(no_stall(design, 1), frames=1, inputs={"i": every})
    assert_proven(run)
    expected = [min(max(round(x * scale + OFFSETS[0]) + 1, -7), 7) for x in every.reshape(-1).tolist()]
    assert run.outputs["node.o"].reshape(-1).tolist() == expected


WIDE = tuple(Fraction(k, 2**27 + 1) for k in (13, 100, 1000, 37, 1))


@pytest.mark.parametrize("lanes", [1, 2, 5])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 6, 7, 13, 14])
def test_wide_accumulators_in_any_number_of_steps(steps: int, lanes: int) -> None:
    """With 14 digits, some numbers of steps leave digits over."""
    operator = ByArithmetic(Tensor((4, 4, 5), Int(24)), WIDE, OFFSETS, Grid.over(Int(8), zero_point=-3))
    assert operator.most_steps == 14
    Case(operator, RequantizeFolding(lanes, steps)).check()


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [Fraction(3, 2**9), Fraction(1, 36), Fraction(5, 2**9), Fraction(0)])
def test_ties_in_any_number_of_steps(steps: int, scale: Fraction) -> None:
    operator = ByArithmetic(
        Tensor((8, 8, 2), Int(13)), (scale,), (Fraction(1, 2),), Grid.over(Int(8), zero_point=-3).within(-100, 127)
    )
    Case(operator, RequantizeFolding(2, min(steps, operator.most_steps))).check()


FRIENDLY = tuple(Fraction(2 * k + 1, 2**15) for k in range(60, 69))


@pytest.mark.parametrize(("steps", "lanes"), [(7, 1), (9, 5), (13, 2), (25, 2)])
@pytest.mark.parametrize("scales", [WIDE, WIDE[:1]])
def test_products_with_digits_that_are_looked_up(scales: tuple[Fraction, ...], steps: int, lanes: int) -> None:
    """Of 24 bits there are 6, 8, 12 or 24 digits, and a step before them takes the argument."""
    operator = Requantize(Tensor((3, 3, 5), Int(24)), scales, OFFSETS[: len(scales)], Grid.over(Int(8), zero_point=-3))
    Case(operator, RequantizeFolding(lanes, steps, blocks=1), depth=3).check()


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("bits", "scale"), [(2, Fraction(3)), (5, Fraction(3, 31)), (9, Fraction(7, 300))])
def test_every_argument_whose_digits_are_looked_up(scale: Fraction, bits: int, signed: bool) -> None:
    """Steep lines, whose shift is less than the bits that leave the sum; two digits; digits beyond the sign."""
    dtype = Int(bits, signed)
    operator = requantize(ByArithmetic, Tensor((1 << bits - bits // 2, 1 << bits // 2, 1), dtype), (scale,))
    every = np.arange(dtype.min, dtype.max + 1).reshape(1, *operator.operand.shape)
    expected = [min(max(round(x * scale + OFFSETS[0]) + 1, -7), 7) for x in every.reshape(-1).tolist()]
    assert operator.tables
    for steps in operator.tables:
        design = alone(operator, RequantizeFolding(1, steps, blocks=1), 3)
        run = Bench(design).prove(no_stall(design, 1), frames=1, inputs={"i": every})
        assert_proven(run)
        assert run.outputs["node.o"].reshape(-1).tolist() == expected


def test_only_lines_without_ties_are_looked_up() -> None:
    ties = ByArithmetic(Tensor((4, 4, 1), Int(8)), (Fraction(1, 16),), (Fraction(0),), Grid.over(Int(4)))
    assert ties.illegal(RequantizeFolding(1, 3, blocks=1)) == "blocks must be 0 here"
    assert not list(ties.in_blocks(RequantizeFolding(1), 10**6))
    line = Requantize(Tensor((3, 3, 5), Int(24)), WIDE, OFFSETS, Grid.over(Int(8), zero_point=-3))
    assert line.illegal(RequantizeFolding(1, 8, blocks=1)) == "steps must be 7 or 9 or 13 or 25 with blocks = 1 here"
    assert line.illegal(RequantizeFolding(1, 7, blocks=2)) == "blocks must be 0 or 1 here"
    assert not list(line.in_blocks(RequantizeFolding(1), 45 * 6))
    assert [folding.steps for folding in line.in_blocks(RequantizeFolding(1), 45 * 13)] == [7, 9, 13]


def test_tables_are_made_only_for_block_rams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is proven on every argument, which takes long, and every design is verified."""

    def refused(*_: object) -> dict[int, DigitTable]:
        raise AssertionError("nothing asks for tables here")

    monkeypatch.setattr("onnx_hw.ops.requantize.digit_tables", refused)
    line = Requantize(Tensor((3, 3, 5), Int(24)), WIDE, OFFSETS, Grid.over(Int(8), zero_point=-3))
    assert not line.illegal(RequantizeFolding(1))
    with pytest.raises(AssertionError, match="tables"):
        line.illegal(RequantizeFolding(1, 8, blocks=1))


def test_the_fewest_blocks_in_time_are_offered() -> None:
    def found(operator: Requantize, cycles: int) -> RequantizeFolding:
        return in_fewest_blocks(operator, RequantizeFolding(1), cycles, Cost.of(ICE40_UP))  # type: ignore[return-value]

    line = Requantize(Tensor((3, 3, 5), Int(24)), WIDE, OFFSETS, Grid.over(Int(8), zero_point=-3))
    few = Requantize(Tensor((3, 3, 9), Int(18)), FRIENDLY, OFFSETS[:1], Grid.over(Int(8)))
    assert found(few, 81 * 7) == RequantizeFolding(1, 7, blocks=1)
    assert found(few, 81 * 10) == RequantizeFolding(1, 10, blocks=1), "in one block, not two"
    assert found(line, 45 * 99) == RequantizeFolding(1, 9, blocks=1)


def test_full_rate() -> None:
    operator = requantize(Requantize, Tensor((3, 4, 5), Int(9)), SCALES)
    run = Case(operator, RequantizeFolding(3), depth=17, stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 4 * 2


@pytest.mark.parametrize("steps", [2, 5])
def test_a_beat_takes_its_steps_and_no_more(steps: int) -> None:
    operator = requantize(ByArithmetic, Tensor((3, 4, 5), Int(9)), SCALES)
    run = Case(operator, RequantizeFolding(3, steps), depth=9, stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 4 * 2 * steps


def test_steps_are_one_per_digit_at_most() -> None:
    operator = requantize(ByArithmetic, Tensor((3, 4, 5), Int(9)), SCALES)
    most = operator.most_steps
    assert operator.illegal(RequantizeFolding(1, most)) == ""
    for steps in (0, most + 1):
        assert operator.illegal(RequantizeFolding(1, steps)) == f"steps must be 1..{most} here"
    on_no_line = Staircase(Tensor((1, 1, 1), Int(8)), Steps(-128, 127, 0, 3, np.array([[-9, -8, 90]])), Int(2, False))
    assert on_no_line.illegal(RequantizeFolding(1, 2)) == "steps must be 1 here"


def test_the_time_there_is_is_used() -> None:
    """Lanes work on one digit at a time where a frame may take long, and on all of them where it may not."""
    operator = Requantize(Tensor((4, 4, 5), Int(24)), WIDE, OFFSETS, Grid.over(Int(8), zero_point=-3))
    beats = 4 * 4 * 5
    seen = [next(operator.foldings(interval)) for interval in (beats // 5, beats, 4 * beats, 9 * beats, 99 * beats)]
    assert seen == [
        RequantizeFolding(5),
        RequantizeFolding(1),
        RequantizeFolding(1, 4),
        RequantizeFolding(1, 7),
        RequantizeFolding(1, 14),
    ]
    costs = [operator.resources(folding).lut for folding in seen[1:]]
    assert costs == sorted(costs, reverse=True)
    assert {folding.lanes for folding in operator.foldings(99 * beats, *beside(operator, 5, 2))} == {1, 2, 5}


@many
@given(requantizers())
def test_facts(drawn: tuple[Requantize, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    assert_foldings_keep_up(requantize(Requantize, Tensor((3, 4, 5), Int(9)), SCALES))


def test_refuses_constants_that_do_not_fit() -> None:
    operand = Tensor((1, 1, 3), Int(8))
    with pytest.raises(ValueError, match="slope must have 1 or 3 entries, not 2"):
        Requantize(operand, SCALES[:2], OFFSETS[:1], Grid.over(Int(8)).within(0, 1))
    with pytest.raises(ValueError, match=r"the range 0\.\.255 must lie within i8"):
        Requantize(operand, SCALES[:1], OFFSETS[:1], Grid.over(Int(8)).within(0, 255))


def test_a_given_function() -> None:
    """Thresholds on no line: a search."""
    operand = Tensor((4, 8, 8), Int(8))
    exact = Steps(-128, 127, -3, 2, np.array([[-100, -99, 3, 90, 90]]))
    staircase = Staircase(operand, exact, Int(3))
    assert staircase.results()[0].range == (-3, 2)
    x = np.array([-128, -101, -100, -99, 2, 3, 89, 90, 127])
    assert staircase.golden(x)[0].tolist() == [-3, -3, -2, -1, -1, 0, 0, 2, 2]
    assert_facts(staircase, RequantizeFolding(3))
    Case(staircase, RequantizeFolding(3)).check()


def test_refuses_a_function_that_does_not_fit() -> None:
    exact = Steps(-10, 10, 0, 3, np.array([[1, 2, 3]] * 3))
    for operand, dtype, told in (
        (Tensor((1, 1, 2), Int(4)), Int(8), "must be 1 or 2, not 3"),
        (Tensor((1, 1, 3), Int(5)), Int(8), "must hold for -16..15"),
        (Tensor((1, 1, 3), Int(4)), Int(2), "must lie within i2"),
    ):
        with pytest.raises(ValueError, match=told):
            Staircase(operand, exact, dtype)


@pytest.mark.parametrize("steps", [1, 3, 13])
@pytest.mark.parametrize("scales", [WIDE, tuple(Fraction(k, 2**20) for k in (1, 2, 64, 8, 3))])
def test_both_sides_of_every_threshold(scales: tuple[Fraction, ...], steps: int) -> None:
    """Where the circuit's constants were proven, the circuit itself; the second scales have ties."""
    operator = ByArithmetic(Tensor((16, 16, 5), Int(24)), scales, OFFSETS, Grid.over(Int(8), zero_point=-3))
    thresholds = np.clip(operator.exact.thresholds.T, -(2**23) + 1, 2**23 - 1)
    at = np.concatenate([thresholds, thresholds[:1]]).reshape(16, 16, 5)
    design = alone(operator, (5, 5, min(steps, operator.most_steps)), 4)
    run = Bench(design).prove(no_stall(design, 2), frames=2, inputs={"i": np.stack([at - 1, at])})
    assert_proven(run)


# ---- for the tests of every core -----------------------------------------------------------------------------------


def requantizes_with(change: Callable[[Any], dict[str, Any]]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other constants than those that were proven."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Requantize.__init__

        def init(self: Any, arithmetic: Any, **named: Any) -> None:
            original(self, replace(arithmetic, **change(arithmetic)), **named)

        patch.setattr(circuit.Requantize, "__init__", init)

    return apply


def one_addend_is_wrong(arithmetic: circuit.MultiplyAddShift) -> dict[str, Any]:
    addends = list(arithmetic.addends)
    addends[3] += 1 << (arithmetic.shift - 1)
    return {"addends": addends}


def one_word_is_wrong(arithmetic: circuit.DigitTable) -> dict[str, Any]:
    words = arithmetic.words.copy()
    words[2, 3] += 3 << arithmetic.shift
    return {"words": words}


def sum_begins_anew(patch: pytest.MonkeyPatch) -> None:
    """Each step clears the sum."""
    original = digit_table.delayed

    def delayed(m: Any, value: Any, cycles: int, name: str) -> Any:
        return Const(1, 1) if name.endswith("_clears") else original(m, value, cycles, name)

    patch.setattr(digit_table, "delayed", delayed)


def kinds_of_steps(kinds: tuple[int, ...]) -> Callable[[pytest.MonkeyPatch], None]:
    """Steps of other kinds, by the right one."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.DigitTable.kind
        patch.setattr(circuit.DigitTable, "kind", lambda self, step: kinds[original(self, step)])

    return apply


def constants_of_the_next_lane(patch: pytest.MonkeyPatch) -> None:
    """A pixel's first channel is taken for the one after the last of the pixel beside it."""
    original = circuit.Requantize.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        further = np.minimum(self.words + self.words.shape[1], self.words.max())
        self.words = np.concatenate([self.words, further], axis=1)

    patch.setattr(circuit.Requantize, "__init__", init)


STRATEGIES = {"requantize": requantizers()}
DRAWS = {
    "requantize": random_requantize,
    "small_requantize": random_small_requantize,
    "requantize_in_blocks": random_requantize_in_blocks,
}
SIXTEENTHS = tuple(Fraction(k, 16) for k in (1, 2, 1, 4))  # every step is a tie
SMALL = ByArithmetic(Tensor((4, 4, 4), Int(8)), SIXTEENTHS, (Fraction(0),), Grid.over(Int(4)))
LINES = ByArithmetic(
    Tensor((4, 4, 4), Int(10)), tuple(Fraction(k, 307) for k in (7, 20, 33, 50)), OFFSETS[1:], Grid.over(Int(4))
)
CASES = {
    "requantize": Case(SMALL, RequantizeFolding(2), depth=2),
    "requantize of pixels": Case(SMALL, RequantizeFolding(2, pixels=2), depth=2),
    "requantize in blocks": Case(LINES, RequantizeFolding(2, 6, blocks=1), depth=2),
}
FAULTS = [
    Fault("a pixel has the constants of the next channels", constants_of_the_next_lane, ("requantize of pixels",)),
    Fault("ties go to the odd neighbour", requantizes_with(lambda a: {"tie_parity": 1 - a.tie_parity})),
    Fault("the result saturates too late", requantizes_with(lambda a: {"high": a.high + 1})),
    Fault("one channel's addend is wrong", requantizes_with(one_addend_is_wrong)),
    Fault("the sum begins anew in each step", sum_begins_anew, ("requantize in blocks",)),
    Fault("a word is wrong", requantizes_with(one_word_is_wrong), ("requantize in blocks",)),
    Fault("the last digit has no sign of its own", kinds_of_steps((0, 1, 2, 2)), ("requantize in blocks",)),
    Fault("the addend comes twice", kinds_of_steps((0, 1, 1, 3)), ("requantize in blocks",)),
]
NARROW_CORES = {
    "requantize": (
        Requantize(NARROW_IMAGE, (Fraction(1, 3),), (Fraction(0),), Grid.over(Int(4))),
        RequantizeFolding(4),
    ),
}
WIDE_CORES = {
    "requantize": (
        Requantize(WIDE_IMAGE, (Fraction(1, 3),), (Fraction(0),), Grid.over(Int(4))),
        RequantizeFolding(8),
    ),
}


@given(requantizers())
def test_the_range_of_the_results_needs_no_thresholds(drawn: tuple[Requantize, Folding]) -> None:
    """A network of thousands of channels of 16 bits has gigabytes of them."""
    operator = replace(drawn[0])
    (result,) = operator.results()
    assert "exact" not in vars(operator)
    assert result.range == (operator.exact.low, operator.exact.high)


def test_a_falling_line_is_refused() -> None:
    operand, grid = Tensor((1, 1, 2), Int(8)), Grid.over(Int(8))
    with pytest.raises(ValueError, match="must not be negative, not -1/2"):
        Requantize(operand, (Fraction(1), Fraction(-1, 2)), (Fraction(0),), grid)
