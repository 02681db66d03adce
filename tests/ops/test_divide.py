"""Divide: golden against its definition, the circuit against golden and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding import Rounding
from onnx_hw.ops.divide import Divide, DivideFolding
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.arithmetic import divider
from onnx_hw_rtl.cores import divide as circuit
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import cuts, tensors, types

BYTES = Grid.over(Int(8))
FLOAT_RATIO = Fraction(float(np.float32(0.031))) / Fraction(float(np.float32(0.0007)))


@st.composite
def quotients(draw: st.DrawFn) -> tuple[Divide, Folding]:
    """Of operands on both sides of 0 or on one, with factors that are powers of two, decimal or of float32."""
    a = draw(tensors())
    b = Tensor(a.shape, draw(types))
    factor = draw(st.sampled_from([Fraction(1), Fraction(1, 8), Fraction(64), Fraction(-7, 3), FLOAT_RATIO]))
    dtype = draw(types)
    grid = Grid.over(dtype, 1, draw(st.integers(dtype.min, dtype.max)))
    offset = st.one_of(st.just(0), st.integers(-20, 20))
    operator = Divide(a, b, (draw(offset), draw(offset)), factor, grid)
    steps = draw(st.sampled_from([1, operator.quotient_bits]))
    return operator, DivideFolding(*draw(cuts(a)), steps)


def divide(shape: tuple[int, int, int], factor: Fraction = Fraction(3), zero: int = 5, bits: int = 4) -> Divide:
    operand = Tensor(shape, Int(bits))
    return Divide(operand, operand, (1, -2), factor, Grid.over(Int(6), 1, zero))


def random_divide(draw: Random) -> Operator:
    shape = random_image(draw).shape
    a, b = Tensor(shape, Int(draw.choice((8, 8, 12)))), Tensor(shape, Int(8, False))
    return Divide(a, b, draw.choice(((0, 0), (3, -7))), draw.choice((Fraction(16), FLOAT_RATIO)), BYTES)


@few
@given(cases(quotients()))
def test_any_quotient(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(("lanes", "in_steps"), [(1, False), (2, False), (4, False), (1, True), (3, True), (4, True)])
def test_every_folding(lanes: int, in_steps: bool) -> None:
    operator = divide((2, 3, 4))
    Case(operator, DivideFolding(lanes, steps=operator.quotient_bits if in_steps else 1), seed=lanes).check()


# ---- golden ----------------------------------------------------------------------------------------------------------


def by_definition(operator: Divide, a: int, b: int) -> int:
    """With fractions; Python rounds them half to even."""
    n, d = a + operator.offsets[0], b + operator.offsets[1]
    low, high = operator.grid.low, operator.grid.high
    if d == 0:
        return high if n * operator.factor > 0 else low
    return min(max(round(operator.factor * n / d) + int(operator.grid.zero_point[0]), low), high)


@many
@given(quotients())
def test_golden_is_the_definition(drawn: tuple[Divide, Folding]) -> None:
    """For all pairs, of which the least and the greatest result are those of the type."""
    operator, _ = drawn
    pairs = list(product(*(range(first, last + 1) for first, last in (operator.a.range, operator.b.range))))[:20_000]
    a, b = np.array(pairs).T
    made = operator.golden(a, b)[0]
    wanted = [by_definition(operator, *pair) for pair in pairs]
    assert made.tolist() == wanted and made.dtype == np.int64
    least, most = operator.results()[0].range
    assert least <= min(wanted) and max(wanted) <= most
    if len(pairs) < 20_000:
        assert (least, most) == (min(wanted), max(wanted))


def test_ties_go_to_the_even_integer() -> None:
    operator = Divide(Tensor((1, 1, 1), Int(8)), Tensor((1, 1, 1), Int(4)), (0, 0), Fraction(1), BYTES)
    for n, d, wanted in ((1, 2, 0), (3, 2, 2), (5, 2, 2), (-1, 2, 0), (-3, 2, -2), (7, -2, -4), (5, -2, -2)):
        assert operator.golden(np.array([n]), np.array([d]))[0].tolist() == [wanted]


def test_a_divisor_of_zero_saturates() -> None:
    """As infinite floats do; 0 / 0 becomes the least integer, as a NaN does in onnxruntime."""
    operator = Divide(Tensor((1, 1, 1), Int(8)), Tensor((1, 1, 1), Int(4)), (0, 0), Fraction(1), BYTES)
    assert operator.golden(np.array([5, -5, 0]), np.array([0, 0, 0]))[0].tolist() == [127, -128, -128]


# ---- facts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lanes", "steps"), [(1, 1), (4, 1), (2, 6)])
def test_full_rate(lanes: int, steps: int) -> None:
    operator, folding = divide((3, 4, 4)), DivideFolding(lanes, steps=steps)
    run = Case(operator, folding, depth=2 + operator.latency(folding), stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 4 * -(-4 // lanes) * steps


@many
@given(quotients())
def test_facts(drawn: tuple[Divide, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    operator = divide((3, 4, 10))
    assert_foldings_keep_up(operator)
    assert list(operator.foldings(2000)) == [DivideFolding(1, steps=6)]
    assert operator.illegal(DivideFolding(1, steps=4)) == "steps must be 1 or 6 here"


def test_refuses_what_it_cannot_do() -> None:
    a, b = Tensor((1, 1, 4), Int(2)), Tensor((1, 2, 2), Int(2))
    for second, factor, grid, message in (
        (b, 1, BYTES, "must have one shape"),
        (a, 0, BYTES, "must not be 0"),
        (a, 1, Grid.over(Int(8), [1, 2]), "one step"),
        (a, 1, Grid.over(Int(8), 1, Fraction(1, 2)), "an integer zero point"),
        (a, 1, Grid.over(Int(8), rounding=Rounding.FLOOR), "half to even"),
    ):
        with pytest.raises(ValueError, match=message):
            Divide(a, second, (0, 0), Fraction(factor), grid)
    assert repr(divide((1, 1, 1))) == "Divide to -32..31"


# ---- for the tests of every core -----------------------------------------------------------------------------------


def divide_with(**changes: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other constants than those of the operator."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Divide.__init__

        def init(self: Any, **named: Any) -> None:
            original(self, **{name: changes.get(name, lambda value: value)(value) for name, value in named.items()})

        patch.setattr(circuit.Divide, "__init__", init)

    return apply


def never_rounds_up(patch: pytest.MonkeyPatch) -> None:
    original = divider.rounded
    patch.setattr(
        divider,
        "rounded",
        lambda m, state, denominator, name: original(m, state, Const((1 << len(denominator) + 1) - 1), name),
    )


STRATEGIES = {"divide": quotients()}
DRAWS = {"divide": random_divide}
CASES = {
    "divide": Case(divide((4, 3, 4), Fraction(30)), DivideFolding(2), depth=4),
    "divide_in_steps": Case(divide((2, 3, 4), FLOAT_RATIO), DivideFolding(3, steps=6), depth=2),
}
BOTH = tuple(CASES)
FAULTS = [
    Fault("quotients are rounded down", never_rounds_up, BOTH),
    Fault("the greatest result is one too small", divide_with(bounds=lambda ends: (ends[0], ends[1] - 1)), BOTH),
    Fault("the zero point is one too large", divide_with(zero_point=lambda zero: zero + 1), BOTH),
    Fault("the factor is half of it", divide_with(factor=lambda parts: (parts[0], 2 * parts[1])), BOTH),
    Fault("the sign is wrong", divide_with(factor=lambda parts: (-parts[0], parts[1])), BOTH),
    Fault("an offset is missing", divide_with(offsets=lambda pair: (pair[0], 0)), BOTH),
]


def of_image(image: Tensor, factor: Fraction) -> Divide:
    return Divide(image, image, (3, 0), factor, BYTES)


NARROW_CORES = {
    "divide": (of_image(NARROW_IMAGE, Fraction(16)), DivideFolding(4)),
    "divide_in_steps": (of_image(NARROW_IMAGE, FLOAT_RATIO), DivideFolding(4, steps=8)),
}
WIDE_CORES = {
    "divide": (of_image(WIDE_IMAGE, Fraction(16)), DivideFolding(16)),
    "divide_in_steps": (of_image(WIDE_IMAGE, Fraction(16)), DivideFolding(16, steps=8)),
}
