"""Add: the circuit against golden and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.canonical_signed_digit import digits_in_base_4
from onnx_hw.exact.integers import Int
from onnx_hw.ops.add import Add, AddFolding, signed_digits
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import add as circuit
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image, random_integer_type
from support.random_operators import element_foldings, tensors, types


@st.composite
def sums(draw: st.DrawFn) -> tuple[Add, Folding]:
    a = draw(tensors())
    factors = draw(st.sampled_from([(1, 1), (1, 1), (1, -1), (3, 5), (7, -2), (341, 170), (1590097, -1224560)]))
    add = Add(a, Tensor(a.shape, draw(types)), factors)
    cut = draw(element_foldings(a))
    return add, AddFolding(cut.lanes, cut.pixels, cut.tile, draw(st.sampled_from([1, add.digits])))


def random_add(draw: Random) -> Operator:
    one = random_image(draw)
    return Add(
        one,
        Tensor(one.shape, random_integer_type(draw)),
        draw.choice(((1, 1), (1, -1), (draw.randint(1, 200), draw.randint(1, 200)))),
    )


SHAPE = (3, 2, 4)
SMALL = Tensor((4, 4, 4), Int(8))


@few
@given(cases(sums()))
def test_any_sum(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("lanes", [5, 7])
def test_ragged_cuts(channels: int, lanes: int) -> None:
    operand = Tensor((3, 2, channels), Int(8))
    Case(Add(operand, operand), AddFolding(lanes)).check()


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (Int(8), Int(8), Int(9)),
        (Int(8, False), Int(8, False), Int(9, False)),
        (Int(8, False), Int(8), Int(10)),
        (Int(1), Int(12), Int(13)),
        (Int(1, False), Int(1), Int(2)),
    ],
)
def test_sums_of_extremes_fit(a: Int, b: Int, result: Int) -> None:
    add = Add(Tensor(SHAPE, a), Tensor(SHAPE, b))
    assert add.results()[0].dtype == result
    for seed in range(3):
        Case(add, AddFolding(4), seed=seed).check()


@pytest.mark.parametrize("factors", [(1, -1), (7, -3), (341, 171), (255, 256), (1, -85), (683, 1)])
@pytest.mark.parametrize(("a", "b"), [(Int(8), Int(8)), (Int(8, False), Int(3)), (Int(1), Int(5, False))])
def test_weighted_sums_of_extremes_fit(factors: tuple[int, int], a: Int, b: Int) -> None:
    add = Add(Tensor(SHAPE, a), Tensor(SHAPE, b), factors)
    for seed in range(2):
        Case(add, AddFolding(4), seed=seed).check()


@pytest.mark.parametrize("factors", [(7, -3), (341, 171), (1, -85), (1590097, 1224560), (63575, -72948)])
@pytest.mark.parametrize(("a", "b"), [(Int(8), Int(8)), (Int(8, False), Int(3)), (Int(1), Int(5, False))])
def test_a_digit_of_both_factors_in_each_step(factors: tuple[int, int], a: Int, b: Int) -> None:
    add = Add(Tensor(SHAPE, a), Tensor(SHAPE, b), factors)
    run = Case(add, AddFolding(4, steps=add.digits), depth=8, stalls=False, frames=3).check()
    assert run.interval_cycles == 3 * 2 * add.digits
    for seed in range(2):
        Case(add, AddFolding(3, steps=add.digits), seed=seed).check()


def test_steps_are_taken_where_they_are_cheaper_and_there_is_time() -> None:
    operand = Tensor(SHAPE, Int(8))
    long, short = Add(operand, operand, (1590097, 1224560)), Add(operand, operand)
    assert {folding.steps for folding in long.foldings(24 * 11)} == {11}
    assert {folding.steps for folding in long.foldings(24 * 10)} == {1}
    assert {folding.steps for folding in short.foldings(24 * 11)} == {1}
    assert "steps must be 1 or 11" in long.illegal(AddFolding(4, steps=5))


@many
@given(st.integers(-(2**40), 2**40))
def test_digits_in_base_4(number: int) -> None:
    digits = digits_in_base_4(number)
    assert sum(digit * 4**place for place, digit in enumerate(digits)) == number
    assert set(digits) <= {-1, 0, 1, 2}


@many
@given(st.integers(-(2**20), 2**20))
def test_digits_make_the_number_and_are_sparse(number: int) -> None:
    digits = signed_digits(number)
    assert sum(sign * 2**shift for sign, shift in digits) == number
    assert all(above - below >= 2 for (_, above), (_, below) in pairwise(digits))
    assert all(sign in (-1, 1) for sign, _ in digits)


def test_golden_is_the_definition() -> None:
    a, b = np.arange(24).reshape(1, *SHAPE), np.arange(24)[::-1].reshape(1, *SHAPE)
    operand = Tensor(SHAPE, Int(8))
    assert np.all(Add(operand, operand).golden(a, b)[0] == 23)
    assert np.all(Add(operand, operand, (5, -3)).golden(a, b)[0] == 5 * a - 3 * b)


@pytest.mark.parametrize("factors", [(1, 1), (171, -85)])
def test_full_rate(factors: tuple[int, int]) -> None:
    operand = Tensor(SHAPE, Int(8))
    add = Add(operand, operand, factors)
    run = Case(add, AddFolding(2), depth=2 + add.latency(AddFolding(2)), stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 2 * 2


@many
@given(sums())
def test_facts(drawn: tuple[Add, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    operand = Tensor(SHAPE, Int(8))
    assert_foldings_keep_up(Add(operand, operand))


def test_refuses_operands_of_two_shapes() -> None:
    with pytest.raises(ValueError, match="must have one shape"):
        Add(Tensor((1, 2, 3), Int(8)), Tensor((1, 2, 4), Int(8)))


@pytest.mark.parametrize("factors", [(0, 1), (-1, 1), (1, 0)])
def test_refuses_factors_that_are_not_a_sum(factors: tuple[int, int]) -> None:
    operand = Tensor(SHAPE, Int(8))
    with pytest.raises(ValueError, match="the first factor must be positive"):
        Add(operand, operand, factors)


# ---- for the tests of every core -----------------------------------------------------------------------------------


def adds_with(*digits: tuple[tuple[int, int], ...]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other factors; as many digits, so that the timing stays."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Add.__init__

        def init(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **named | {"digits": digits})

        patch.setattr(circuit.Add, "__init__", init)

    return apply


def steps_with(*codes: tuple[int, ...]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other digits of the steps, as many of them."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Add.__init__

        def init(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **named | {"codes": codes})

        patch.setattr(circuit.Add, "__init__", init)

    return apply


@pytest.mark.parametrize("codes", [((3, 2), (2, 3)), ((3, 1), (1, 3)), ((2, 3), (1, 3))])
def test_a_wrong_digit_of_a_step_is_seen(codes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The digits of 7 are −1 and 2, those of −3 are 1 and −1."""
    add = Add(SMALL, SMALL, (7, -3))
    steps_with((3, 2), (1, 3))(monkeypatch)
    Case(add, AddFolding(2, steps=2), depth=2).check()
    monkeypatch.undo()
    steps_with(*codes)(monkeypatch)
    with pytest.raises(AssertionError):
        Case(add, AddFolding(2, steps=2), depth=2).check()


STRATEGIES = {"add": sums()}
DRAWS = {"add": random_add}
CASES = {"add": Case(Add(SMALL, SMALL, (7, -3)), AddFolding(2), depth=2)}
FAULTS = [
    Fault("a digit of a factor has the wrong sign", adds_with(((1, 3), (1, 0)), ((-1, 2), (1, 0)))),
    Fault("a digit of a factor has the wrong weight", adds_with(((1, 3), (-1, 0)), ((-1, 2), (1, 1)))),
]
NARROW_CORES = {
    "add": (Add(NARROW_IMAGE, NARROW_IMAGE), AddFolding(4)),
}
WIDE_CORES = {
    "add": (Add(WIDE_IMAGE, WIDE_IMAGE), AddFolding(16)),
}
