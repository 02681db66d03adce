"""Gearbox: the circuit against golden and against the firing law."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.gearbox import Gearbox, GearboxFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import gearbox as circuit
from onnx_hw_rtl.cores import whole_gearbox
from support.design_bench import assert_proven, prove
from support.hand_built_designs import alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, beside
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import lane_counts, pixel_counts, tensors


@st.composite
def gearboxes(draw: st.DrawFn) -> tuple[Gearbox, Folding]:
    operand = draw(tensors(24))
    folding = GearboxFolding(
        draw(lane_counts(operand.channels)), draw(lane_counts(operand.channels)), draw(pixel_counts(operand))
    )
    live = Gearbox(operand).live_capacity(folding)
    capacity = draw(st.one_of(st.none(), st.just(live), st.integers(live, 3 * live + 3)))
    return Gearbox(operand, capacity), folding


def random_gearbox(draw: Random) -> Operator:
    return Gearbox(random_image(draw, (4, 6, 8, 12, 16, 24)))


@few
@given(cases(gearboxes()))
def test_any_gearbox(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize(
    "lanes",
    [(5, 7), (7, 5), (1, 16), (16, 1), (4, 4), (8, 12), (12, 8), (2, 4), (4, 2), (3, 6), (6, 3), (1, 2), (2, 1)],
)
def test_ragged_cuts(channels: int, lanes: tuple[int, int]) -> None:
    Case(Gearbox(Tensor((2, 3, channels), Int(8))), GearboxFolding(*lanes)).check()


@pytest.mark.parametrize("lanes", [(2, 4), (4, 2), (3, 2), (1, 5), (5, 1), (1, 4), (4, 1)])
def test_pixels_side_by_side(lanes: tuple[int, int]) -> None:
    """Lanes of either width, each with its channel of all pixels of a beat."""
    Case(Gearbox(Tensor((2, 5, 5), Int(8))), GearboxFolding(*lanes, 2)).check()


@pytest.mark.parametrize("lanes", [(5, 7), (7, 5), (3, 16), (16, 3)])
@pytest.mark.parametrize("more", [0, 1, 2, 7])
def test_any_capacity(lanes: tuple[int, int], more: int) -> None:
    """The ring of blocks is as long as the capacity asks for."""
    operand = Tensor((1, 4, 23), Int(5))
    capacity = Gearbox(operand).live_capacity(GearboxFolding(*lanes)) + more
    Case(Gearbox(operand, capacity), GearboxFolding(*lanes)).check()


@pytest.mark.parametrize("lanes", [(2, 5), (5, 7), (1, 12)])
def test_one_beat_less_than_the_live_capacity_deadlocks(lanes: tuple[int, int]) -> None:
    operand = Tensor((1, 4, 12), Int(8))
    live = Gearbox(operand).live_capacity(GearboxFolding(*lanes))
    assert_proven(prove(alone(Gearbox(operand, live), lanes, 4)))
    run = prove(alone(Gearbox(operand, live - 1), lanes, 4))
    assert_proven(run, live=False)
    assert [line.split(" waits")[0] for line in run.deadlock] == ["node.writer", "node.reader"]


def test_lanes_that_no_pixel_has_are_compiled() -> None:
    """Flip-flops that never change, each under two names: yosys must not stumble over their initial values."""
    design = alone(Gearbox(Tensor((1, 1, 5), Int(8)), 6), (1, 6), 4)
    assert flow.simulate(design, {"i": np.zeros((2, 1, 1, 5), np.int8)}, engine="compiled").agrees


@pytest.mark.parametrize(
    ("lanes", "beats"),
    [((5, 7), 4), ((7, 5), 4), ((16, 3), 6), ((3, 16), 6), ((4, 16), 4), ((16, 4), 4), ((3, 12), 6), ((12, 3), 6)],
)
def test_full_rate(lanes: tuple[int, int], beats: int) -> None:
    """One beat per cycle on the busier side, also where a pixel ends."""
    run = Case(Gearbox(Tensor((2, 3, 16), Int(8))), GearboxFolding(*lanes), depth=6, stalls=False, frames=4).check()
    assert run.interval_cycles == 6 * beats


@many
@given(gearboxes())
def test_facts(drawn: tuple[Gearbox, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_are_what_the_neighbours_want() -> None:
    gearbox = Gearbox(Tensor((2, 3, 16), Int(8)))
    assert list(gearbox.foldings(24, *beside(gearbox, 5, 7))) == [GearboxFolding(5, 7)]
    assert list(gearbox.foldings(23, *beside(gearbox, 5, 7))) == []
    assert list(gearbox.foldings(24)) == []


def test_refuses_an_empty_ring() -> None:
    with pytest.raises(ValueError, match="at least one beat, not 0"):
        Gearbox(Tensor((1, 1, 1), Int(8)), capacity=0)


# ---- for the tests of every core -----------------------------------------------------------------------------------


def ring_of_one_block_less(patch: pytest.MonkeyPatch) -> None:
    original = circuit._blocks_touched
    patch.setattr(circuit, "_blocks_touched", lambda *arguments: original(*arguments) - 1)


def pixels_are_not_turned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(circuit.Gearbox, "_transposed", lambda self, elements, *shape: elements)


def parts_are_not_turned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(whole_gearbox.WholeGearbox, "_turned", lambda self, elements, *shape: elements)


def short_beats_do_not_leave(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(whole_gearbox, "innermost_ends", lambda loops, _, turn: turn["part"] == loops["part"] - 1)


STRATEGIES = {"gearbox": gearboxes()}
DRAWS = {"gearbox": random_gearbox}
CASES = {
    "gearbox": Case(Gearbox(Tensor((2, 2, 12), Int(8))), GearboxFolding(3, 4), depth=2),
    "gearbox of pixels": Case(Gearbox(Tensor((2, 4, 12), Int(8))), GearboxFolding(3, 4, 2), depth=2),
    "gearbox that widens": Case(Gearbox(Tensor((2, 2, 10), Int(8))), GearboxFolding(2, 6), depth=2),
    "gearbox that narrows": Case(Gearbox(Tensor((2, 2, 10), Int(8))), GearboxFolding(6, 2), depth=2),
    "gearbox that widens pixels": Case(Gearbox(Tensor((2, 4, 12), Int(8))), GearboxFolding(3, 6, 2), depth=2),
    "gearbox that narrows pixels": Case(Gearbox(Tensor((2, 4, 12), Int(8))), GearboxFolding(6, 3, 2), depth=2),
}
RINGS = ("gearbox", "gearbox of pixels")
FAULTS = [
    Fault("the ring is a block too short", ring_of_one_block_less, RINGS),
    Fault("pixels are not turned", pixels_are_not_turned, ("gearbox of pixels",)),
    Fault("parts are not turned", parts_are_not_turned, ("gearbox that widens pixels", "gearbox that narrows pixels")),
    Fault("short beats do not leave", short_beats_do_not_leave, ("gearbox that widens",)),
]
NARROW_CORES = {
    "gearbox": (Gearbox(NARROW_IMAGE), GearboxFolding(4, 5)),
    "gearbox_that_widens": (Gearbox(NARROW_IMAGE), GearboxFolding(2, 4)),
    "gearbox_that_narrows": (Gearbox(NARROW_IMAGE), GearboxFolding(4, 2)),
}
WIDE_CORES = {
    "gearbox": (Gearbox(WIDE_IMAGE), GearboxFolding(24, 16)),
    "gearbox_that_widens": (Gearbox(WIDE_IMAGE), GearboxFolding(8, 24)),
    "gearbox_that_narrows": (Gearbox(WIDE_IMAGE), GearboxFolding(24, 8)),
}
