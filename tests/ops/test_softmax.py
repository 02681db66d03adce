"""Softmax: golden against its definition, the circuit against golden and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from math import floor
from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.division import exponentials, rounded_quotient
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding import Rounding
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.softmax import Softmax, SoftmaxFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.arithmetic import divider
from onnx_hw_rtl.cores import softmax as circuit
from onnx_hw_rtl.streams import pixel_buffer
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault, stale_accumulator
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import lane_counts, tensors, types

BYTES = Grid.over(Int(8, False), Fraction(1, 256))
FLOAT_STEP = Fraction(float(np.float32(1 / 255)))


def softmax(operand: Tensor, grid: Grid = BYTES, bits: int = 20, step: Fraction = Fraction(1, 8)) -> Softmax:
    low, high = operand.range
    return Softmax(operand, exponentials(step, high - low + 1, bits), grid)


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Steps that are powers of two, decimal, or float32, for few and for many bits; with any zero point."""
    dtype = draw(types)
    step = draw(st.sampled_from([Fraction(1, 1 << dtype.bits), Fraction(1, 3), Fraction(7, 100), FLOAT_STEP]))
    return Grid.over(dtype, step, draw(st.integers(dtype.min, dtype.max)))


@st.composite
def softmaxes(draw: st.DrawFn) -> tuple[Softmax, Folding]:
    operand = draw(tensors(5))
    step = draw(st.sampled_from([Fraction(1, 2), Fraction(1, 16), Fraction(3)]))
    operator = softmax(operand, draw(grids()), draw(st.sampled_from([2, 8, 20])), step)
    lanes = draw(lane_counts(operand.channels))
    return operator, SoftmaxFolding(lanes, draw(st.sampled_from([1, operator.quotient_bits])))


def random_softmax(draw: Random) -> Operator:
    return softmax(random_image(draw, (4, 8, 12, 16)), draw.choice((BYTES, Grid.over(Int(8), FLOAT_STEP, -128))))


@few
@given(cases(softmaxes()))
def test_any_softmax(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(("lanes", "in_steps"), [*((n, False) for n in range(1, 8)), (1, True), (3, True), (4, True)])
def test_every_folding(lanes: int, in_steps: bool) -> None:
    operator = softmax(Tensor((2, 3, 7), Int(4)))
    Case(operator, SoftmaxFolding(lanes, operator.quotient_bits if in_steps else 1), seed=lanes).check()


@pytest.mark.parametrize(("channels", "lanes"), [(1, 1), (3, 5), (9, 8)])
def test_ragged_cuts(channels: int, lanes: int) -> None:
    """The lanes beyond hold the type's extremes."""
    Case(softmax(Tensor((1, 3, channels), Int(8))), SoftmaxFolding(lanes), seed=channels).check()


# ---- golden ----------------------------------------------------------------------------------------------------------


def by_definition(operator: Softmax, row: list[int]) -> list[int]:
    """With fractions, and rounded by comparison."""
    powers = [int(operator.exponentials[max(row) - x]) for x in row]
    step, results = operator.grid.step[0], []
    for power in powers:
        share = Fraction(power, sum(powers)) / step
        below = floor(share)
        rest = share - below
        rounded = below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))
        results.append(min(max(rounded + operator.zero_point, operator.grid.low), operator.grid.high))
    return results


@many
@given(softmaxes(), st.integers(0, 99))
def test_golden_is_the_definition(drawn: tuple[Softmax, Folding], seed: int) -> None:
    operator, _ = drawn
    low, high = operator.operand.range
    image = np.random.default_rng(seed).integers(low, high + 1, (2, *operator.operand.shape))
    made = operator.golden(image)[0]
    assert made.shape == image.shape and made.dtype == np.int64
    (result,) = operator.results()
    assert result.range[0] <= made.min() and made.max() <= result.range[1]
    for place in np.ndindex(made.shape[:3]):
        assert made[place].tolist() == by_definition(operator, image[place].tolist())


def test_ties_go_to_the_even_integer() -> None:
    """Equal elements, of which 1 / (2n) · 2^k is a half."""
    for channels, bits, shares in ((4, 1, [0] * 4), (2, 2, [2] * 2), (8, 2, [0] * 8), (4, 3, [2] * 4)):
        operator = softmax(Tensor((1, 1, channels), Int(2)), Grid.over(Int(8), Fraction(1, 1 << bits)))
        assert operator.golden(np.zeros((1, 1, 1, channels), dtype=np.int64))[0].reshape(-1).tolist() == shares
    numerators, halves = np.arange(-9, 10), np.full(19, 2)
    assert rounded_quotient(numerators, halves).tolist() == [round(Fraction(int(n), 2)) for n in numerators]


def test_exponentials_are_rounded_correctly() -> None:
    """Against 60 digits."""
    context = Context(prec=60)
    for step in (Fraction(1, 16), FLOAT_STEP, Fraction(5)):
        for k, power in enumerate(exponentials(step, 300, 20)):
            argument = context.divide(Decimal(-k * step.numerator), Decimal(step.denominator))
            assert abs(context.exp(argument) * 2**20 - int(power)) <= Decimal("0.5"), (step, k)
    assert exponentials(Fraction(1), 40, 20)[-1] == 0, "what is far below the greatest is 0"


def test_close_to_the_real_softmax() -> None:
    """Seldom another integer, never by more than a step."""
    operator = softmax(Tensor((40, 25, 20), Int(8)), step=Fraction(1, 10))
    image = np.random.default_rng(1).integers(-128, 128, (1, 40, 25, 20))
    powers = np.exp((image - image.max(axis=3, keepdims=True)) / 10)
    wanted = np.minimum(np.rint(powers / powers.sum(axis=3, keepdims=True) * 256), 255)
    apart = np.abs(operator.golden(image)[0] - wanted)
    assert apart.max() <= 1 and (apart > 0).mean() <= 3e-4


# ---- facts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 4])
def test_full_rate(lanes: int) -> None:
    """One element per lane and cycle."""
    operator, folding = softmax(Tensor((3, 4, 10), Int(8))), SoftmaxFolding(lanes)
    run = Case(operator, folding, depth=2 + operator.latency(folding), stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 4 * -(-10 // lanes)


def test_full_rate_in_steps() -> None:
    operator = softmax(Tensor((3, 4, 5), Int(8)))
    folding = SoftmaxFolding(2, 8)
    run = Case(operator, folding, depth=2 + operator.latency(folding), stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 4 * 3 * 8


@many
@given(softmaxes())
def test_facts(drawn: tuple[Softmax, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    operator = softmax(Tensor((3, 4, 10), Int(8)))
    assert_foldings_keep_up(operator)
    assert list(operator.foldings(24)) == [SoftmaxFolding(5)]
    assert list(operator.foldings(2000)) == [SoftmaxFolding(1, 8)]
    assert operator.illegal(SoftmaxFolding(1, 5)) == "steps must be 1 or 8 here"
    assert "lanes must be 1..10" in operator.illegal(SoftmaxFolding(11))


def test_refuses_what_it_cannot_do() -> None:
    operand = Tensor((1, 1, 4), Int(2))
    for table, grid, message in (
        ([8, 4, 2], BYTES, "must be 4 exponentials"),
        ([8, 4, 5, 1], BYTES, "never rise"),
        ([0, 0, 0, 0], BYTES, "begin with 1 or more"),
        ([8, 4, 2, 1], Grid.over(Int(8), [1, 2]), "one step"),
        ([8, 4, 2, 1], Grid.over(Int(8), 1, Fraction(1, 2)), "an integer zero point"),
        ([8, 4, 2, 1], Grid.over(Int(8), rounding=Rounding.FLOOR), "half to even"),
    ):
        with pytest.raises(ValueError, match=message):
            Softmax(operand, np.array(table), grid)


def test_is_told_by_its_range() -> None:
    assert repr(softmax(Tensor((1, 1, 4), Int(2)))) == "Softmax to 0..255"


# ---- for the tests of every core -----------------------------------------------------------------------------------


def softmax_with(**changes: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other constants than those of the operator."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Softmax.__init__

        def init(self: Any, table: Any, **named: Any) -> None:
            original(
                self,
                changes.get("table", lambda entries: entries)(table),
                **{name: changes.get(name, lambda value: value)(value) for name, value in named.items()},
            )

        patch.setattr(circuit.Softmax, "__init__", init)

    return apply


def a_wrong_entry(table: list[int]) -> list[int]:
    return [power + (k == 3) * max(1, power // 4) for k, power in enumerate(table)]


def never_rounds_up(patch: pytest.MonkeyPatch) -> None:
    original = divider.rounded
    patch.setattr(
        divider,
        "rounded",
        lambda m, state, denominator, name: original(m, state, Const((1 << len(denominator) + 1) - 1), name),
    )


def unused_lanes_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(circuit.Softmax, "_used", property(lambda self: self.lanes))


def buffer_waits_for_less(patch: pytest.MonkeyPatch) -> None:
    """The first pixel's first beat is read before its last one is written."""
    original = pixel_buffer.SharedBuffer
    patch.setattr(
        pixel_buffer, "SharedBuffer", lambda capacity, first, span: original(capacity, max(1, first - 1), span)
    )


STRATEGIES = {"softmax": softmaxes()}
DRAWS = {"softmax": random_softmax}
SMALL = Tensor((2, 3, 7), Int(4))
CASES = {
    "softmax": Case(softmax(SMALL), SoftmaxFolding(2), depth=2, seed=2),
    "softmax_in_steps": Case(softmax(SMALL, Grid.over(Int(4), Fraction(1, 14))), SoftmaxFolding(3, 3), depth=2),
}
BOTH = tuple(CASES)
FAULTS = [
    Fault("an accumulator is stale in frame two", stale_accumulator, BOTH),
    Fault("an exponential is wrong", softmax_with(table=a_wrong_entry), BOTH),
    Fault("quotients are rounded down", never_rounds_up, BOTH),
    Fault("the zero point is one too large", softmax_with(zero_point=lambda zero: zero + 1), BOTH),
    Fault("the scale is half of it", softmax_with(factor=lambda parts: (parts[0], 2 * parts[1])), BOTH),
    Fault("an unused lane counts", unused_lanes_count, BOTH),
    Fault("the reader begins one beat early", buffer_waits_for_less, BOTH),
]
NARROW_CORES = {
    "softmax": (softmax(NARROW_IMAGE), SoftmaxFolding(4)),
    "softmax_in_steps": (softmax(NARROW_IMAGE, Grid.over(Int(8), FLOAT_STEP)), SoftmaxFolding(4, 7)),
}
WIDE_CORES = {
    "softmax": (softmax(WIDE_IMAGE), SoftmaxFolding(16)),
    "softmax_in_steps": (softmax(WIDE_IMAGE), SoftmaxFolding(16, 8)),
}
