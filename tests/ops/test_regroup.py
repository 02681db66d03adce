"""Regroup: the circuit against golden and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.regroup import Regroup, RegroupFolding
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import regroup as circuit
from support.design_bench import assert_proven, prove
from support.hand_built_designs import alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import lane_counts, types


@st.composite
def regroups(draw: st.DrawFn) -> tuple[Regroup, RegroupFolding]:
    """Groups that fill their row and groups that do not."""
    operand = Tensor(draw(st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))), draw(types))
    few = draw(st.integers(1, min(3, operand.shape[1])))
    many = few * draw(st.integers(1, operand.shape[1] // few))
    folding = RegroupFolding(draw(lane_counts(operand.channels)), *draw(st.permutations((few, many))))
    live = Regroup(operand).live_capacity(folding)
    capacity = draw(st.one_of(st.none(), st.just(live), st.integers(live, 3 * live + 3)))
    return Regroup(operand, capacity), folding


def random_regroup(draw: Random) -> Operator:
    return Regroup(random_image(draw, (1, 2, 4, 8, 12)))


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


# ---- for the tests of every core -----------------------------------------------------------------------------------


def ring_of_one_group_less(patch: pytest.MonkeyPatch) -> None:
    original = circuit.Regroup._groups_held
    patch.setattr(circuit.Regroup, "_groups_held", lambda self: original(self) - 1)


def a_group_is_there(by: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Its first output beat waits for a beat more, or less."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Regroup._first_need
        patch.setattr(circuit.Regroup, "_first_need", lambda self, group: original(self, group) + by)

    return apply


def every_row_is_full(patch: pytest.MonkeyPatch) -> None:
    """The last pixel group of a row is taken for a whole one."""
    original = circuit.Regroup.__init__
    patch.setattr(
        circuit.Regroup,
        "__init__",
        lambda self, *, columns, i, o, **named: original(
            self, columns=columns + -columns % max(i.pixels, o.pixels), i=i, o=o, **named
        ),
    )


STRATEGIES = {"regroup": regroups()}
DRAWS = {"regroup": random_regroup}
CASES = {
    "regroup": Case(Regroup(Tensor((2, 5, 6), Int(8))), RegroupFolding(3, out_pixels=2), depth=2),
    "scatter": Case(Regroup(Tensor((2, 5, 6), Int(8))), RegroupFolding(3, in_pixels=2), depth=2),
}
FAULTS = [
    Fault("the ring is a group too short", ring_of_one_group_less, tuple(CASES)),
    Fault("a group waits for a beat too many", a_group_is_there(+1)),
    Fault("a group does not wait for its last beat", a_group_is_there(-1), tuple(CASES)),
    Fault("every row is taken for a full one", every_row_is_full, tuple(CASES)),
]
NARROW_CORES = {
    "regroup": (Regroup(NARROW_IMAGE), RegroupFolding(4, out_pixels=2)),
}
WIDE_CORES = {
    "gather": (Regroup(WIDE_IMAGE), RegroupFolding(16, out_pixels=2)),
    "scatter": (Regroup(WIDE_IMAGE), RegroupFolding(16, in_pixels=2)),
}
