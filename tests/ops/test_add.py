"""Add: the circuit against golden and against the firing law."""

import numpy as np
import pytest
from hypothesis import given

from drawn import Case, cases, few, many, sums
from onnx_hw.integers import Int
from onnx_hw.network import Tensor
from onnx_hw.ops.add import Add
from onnx_hw.ops.operator import Folding
from operator_facts import assert_facts, assert_foldings_keep_up

SHAPE = (3, 2, 4)


@few
@given(cases(sums()))
def test_any_sum(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("lanes", [5, 7])
def test_ragged_cuts(channels: int, lanes: int) -> None:
    operand = Tensor((3, 2, channels), Int(8))
    Case(Add(operand, operand), Folding(lanes, lanes)).check()


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
        Case(add, Folding(4, 4), seed=seed).check()


def test_golden_is_the_definition() -> None:
    a, b = np.arange(24).reshape(1, *SHAPE), np.arange(24)[::-1].reshape(1, *SHAPE)
    assert np.all(Add(Tensor(SHAPE, Int(8)), Tensor(SHAPE, Int(8))).golden(a, b)[0] == 23)


def test_full_rate() -> None:
    operand = Tensor(SHAPE, Int(8))
    run = Case(Add(operand, operand), Folding(2, 2), depth=3, stalls=False, frames=4).check()
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
