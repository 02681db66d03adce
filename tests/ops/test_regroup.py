"""Regroup: the circuit against golden and against the firing law."""

import numpy as np
import pytest
from hypothesis import given

from onnx_hw.exact.integers import Int
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from support.design_bench import assert_proven, prove
from support.hand_built_designs import alone
from support.operator_facts import assert_facts
from support.random_cases import Case, cases, few, many
from support.random_operators import regroups


@few
@given(cases(regroups()))
def test_any_regrouping(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("columns", [4, 5, 6, 7])
@pytest.mark.parametrize("pixels", [(1, 2), (2, 1), (1, 4), (4, 1)])
@pytest.mark.parametrize("lanes", [2, 3])
def test_groups_that_fill_their_row_and_others(columns: int, pixels: tuple[int, int], lanes: int) -> None:
    operator = Regroup(Tensor((2, columns, 5), Int(4)))
    Case(operator, RegroupFolding(lanes, *pixels), seed=columns).check()


@pytest.mark.parametrize("pixels", [(1, 3), (3, 1), (1, 4), (4, 1)])
@pytest.mark.parametrize("columns", [7, 8])
@pytest.mark.parametrize("lanes", [2, 6])
def test_full_rate(pixels: tuple[int, int], columns: int, lanes: int) -> None:
    """A beat a cycle on the side of single pixels, also where a row ends."""
    operator = Regroup(Tensor((2, columns, 6), Int(4)))
    run = Case(operator, RegroupFolding(lanes, *pixels), depth=6, stalls=False, frames=4).check()
    assert run.interval_cycles == 2 * columns * (6 // lanes)


@pytest.mark.parametrize("pixels", [(1, 2), (2, 1), (1, 3), (3, 1)])
def test_one_beat_less_than_the_live_capacity_deadlocks(pixels: tuple[int, int]) -> None:
    operand, folding = Tensor((1, 5, 4), Int(8)), RegroupFolding(2, *pixels)
    live = Regroup(operand).live_capacity(folding)
    assert_proven(prove(alone(Regroup(operand, live), folding, 4)))
    run = prove(alone(Regroup(operand, live - 1), folding, 4))
    assert_proven(run, live=False)
    assert [line.split(" waits")[0] for line in run.deadlock] == ["node.writer", "node.reader"]


@many
@given(regroups())
def test_facts(drawn: tuple[Regroup, RegroupFolding]) -> None:
    assert_facts(*drawn)


@pytest.mark.parametrize("pixels", [(2, 4), (4, 2), (2, 6), (3, 3)])
@pytest.mark.parametrize("columns", [6, 7, 8, 9])
def test_several_pixels_become_more(pixels: tuple[int, int], columns: int) -> None:
    """Ragged on both sides, or on one."""
    operator, folding = Regroup(Tensor((2, columns, 3), Int(4))), RegroupFolding(2, *pixels)
    run = Case(operator, folding, depth=6, stalls=False, frames=4).check()
    assert run.interval_cycles == operator.cycles(folding)
    Case(operator, folding, seed=columns).check()


def test_one_of_the_numbers_divides_the_other() -> None:
    operator = Regroup(Tensor((2, 6, 4), Int(8)))
    assert operator.illegal(RegroupFolding(2, 1, 6)) == operator.illegal(RegroupFolding(2, 6, 2)) == ""
    assert operator.illegal(RegroupFolding(2, 4, 6)) == "in_pixels must divide out_pixels, or the other way round"
    assert "out_pixels must be 1..6" in operator.illegal(RegroupFolding(2, 1, 7))


def test_it_keeps_the_tensor() -> None:
    image = np.arange(24).reshape(1, 2, 3, 4)
    assert np.array_equal(Regroup(Tensor((2, 3, 4), Int(8))).golden(image)[0], image)


def test_refuses_an_empty_ring() -> None:
    with pytest.raises(ValueError, match="at least one beat, not 0"):
        Regroup(Tensor((2, 3, 4), Int(8)), 0)


def test_only_foldings_that_keep_up_are_offered() -> None:
    operator = Regroup(Tensor((2, 6, 4), Int(4)))
    from_pixels, to_pixels = Order(operator.operand, 2, 1), Order(operator.operand, 2, 2)
    (folding,) = operator.foldings(10**6, from_pixels, to_pixels)
    cycles = operator.cycles(folding)
    assert list(operator.foldings(cycles, from_pixels, to_pixels)) == [folding]
    assert not list(operator.foldings(cycles - 1, from_pixels, to_pixels))
