"""PreviousStep: the circuit against golden and against the firing law, alone; on loops in ``tests/end_to_end``."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import EvenFolding, Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.permutation import of_channels, of_pixels
from onnx_hw.ops.previous_step import PreviousStep
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import previous_step as circuit
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import even_foldings, tensors


def states(operand: Tensor, seed: int) -> np.ndarray:
    """Any integers of the operand's type, (width, channels)."""
    return np.random.default_rng(seed).integers(operand.dtype.min, operand.dtype.max + 1, operand.shape[1:])


@st.composite
def previous_steps(draw: st.DrawFn) -> tuple[PreviousStep, Folding]:
    operand = draw(tensors())
    initial = states(operand, draw(st.integers(0, 99))) * draw(st.integers(0, 1))
    first = Tensor((1, *operand.shape[1:]), operand.dtype)
    return PreviousStep(operand, first if draw(st.booleans()) else initial), draw(even_foldings(operand.channels))


def random_previous_step(draw: Random) -> Operator:
    image = random_image(draw)
    return PreviousStep(image, states(image, draw.randrange(99)))


@few
@given(cases(previous_steps()))
def test_any_previous_step(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("lanes", [1, 3, 4, 7])
def test_ragged_cuts(lanes: int) -> None:
    operand = Tensor((3, 2, 7), Int(8))
    Case(PreviousStep(operand, states(operand, 1)), EvenFolding(lanes)).check()


def test_golden_is_the_definition() -> None:
    """Row by row, each frame for itself; the last row goes nowhere."""
    rows = np.arange(16).reshape(2, 4, 1, 2)
    (result,) = PreviousStep(Tensor((4, 1, 2), Int(6)), np.array([[-1, 20]])).golden(rows)
    assert result[0, :, 0].tolist() == [[-1, 20], [0, 1], [2, 3], [4, 5]]
    assert result[1, :, 0].tolist() == [[-1, 20], [8, 9], [10, 11], [12, 13]]


def test_the_initial_state_widens_the_range() -> None:
    operand = Tensor((4, 1, 2), Int(6), 0, 7)
    assert PreviousStep(operand, np.array([[-1, 20]])).results()[0].range == (-1, 20)
    with pytest.raises(ValueError, match="must lie within i6"):
        PreviousStep(operand, np.array([[0, 32]]))
    with pytest.raises(ValueError, match=r"must be \(1, 2\), not \(2,\)"):
        PreviousStep(operand, np.array([0, 32]))


def test_the_initial_state_may_be_an_input() -> None:
    """With every frame another one; of the state's own type."""
    operand = Tensor((4, 2, 3), Int(5))
    delay = PreviousStep(operand, Tensor((1, 2, 3), Int(5), -3, 3))
    rows, first = np.arange(48).reshape(2, 4, 2, 3), np.arange(-12, 0).reshape(2, 1, 2, 3)
    (result,) = delay.golden(rows, first)
    np.testing.assert_array_equal(result[:, :1], first)
    np.testing.assert_array_equal(result[:, 1:], rows[:, :-1])
    for lanes in (1, 2, 3):
        Case(delay, EvenFolding(lanes), seed=lanes).check()
    with pytest.raises(ValueError, match=r"must be i5\[1,2,3\], not i6\[1,2,3\]"):
        PreviousStep(operand, Tensor((1, 2, 3), Int(6)))
    changed, orders = delay.reordered("initial", of_channels((1, 2, 3), np.array([2, 0, 1]))) or (None, {})
    assert changed is not None and set(orders) == {"i", "initial", "o"}
    moved = changed.golden(orders["i"](rows), orders["initial"](first))[0]
    np.testing.assert_array_equal(moved, orders["o"](result))


def test_full_rate() -> None:
    """The last step of a frame is taken before the initial state of the next one is given."""
    run = Case(PreviousStep(WIDE_IMAGE, states(WIDE_IMAGE, 0)), EvenFolding(8), depth=3, stalls=False, frames=4).check()
    assert run.interval_cycles == (5 + 1) * 4 * 4


def test_rows_may_change_alike() -> None:
    """Channels and pixels of all rows; never the rows themselves, which are steps."""
    operand, initial = Tensor((3, 2, 2), Int(8)), np.array([[1, 2], [3, 4]])
    delay, swapped = PreviousStep(operand, initial), of_channels(operand.shape, np.array([1, 0]))
    changed, orders = delay.reordered("o", swapped) or (None, {})
    assert changed is not None and set(orders) == {"i", "o"}
    frames = np.arange(24).reshape(2, 3, 2, 2)
    np.testing.assert_array_equal(changed.golden(swapped(frames))[0], swapped(delay.golden(frames)[0]))
    backwards = of_pixels((3, 2), np.arange(6)[::-1].copy(), np.arange(2))
    assert delay.reordered("i", backwards) is None
    assert delay.reordered("i", of_pixels((2, 3), np.arange(6), np.arange(2))) is None


@many
@given(previous_steps())
def test_facts(drawn: tuple[PreviousStep, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    operand = Tensor((3, 4, 6), Int(8))
    assert_foldings_keep_up(PreviousStep(operand, states(operand, 0)))


# ---- for the tests of every core -----------------------------------------------------------------------------------


def replaces(name: str, method: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(circuit.PreviousStep, name, method)


def begins_with_what_comes(self: Any, turn: Any) -> Any:
    return len(self.words)


def mixes_up_the_beats(self: Any, turn: Any) -> Any:
    numbers = [self.words.index(word) for word in self.beats]
    choice = circuit.pick(turn["beat"], numbers[1:] + numbers[:1])
    return circuit.choose(turn["step"] >= 1, len(self.words), choice)


def takes_the_other(self: Any, turn: Any) -> Any:
    return circuit.choose(turn["step"] >= 1, 0, len(self.words))


STRATEGIES = {"previous_step": previous_steps()}
DRAWS = {"previous_step": random_previous_step}
FOUR = Tensor((4, 2, 4), Int(8))
CASES = {
    "previous_step": Case(PreviousStep(FOUR, states(FOUR, 3)), EvenFolding(2), depth=2, seed=2),
    "previous_step_from": Case(PreviousStep(FOUR, Tensor((1, 2, 4), Int(8))), EvenFolding(2), depth=2, seed=2),
}
FAULTS = [
    Fault("a frame begins with what is on the wires", replaces("_choice", begins_with_what_comes)),
    Fault("the state comes from the other stream", replaces("_choice", takes_the_other), ("previous_step_from",)),
    Fault("the initial state comes in another order", replaces("_choice", mixes_up_the_beats)),
    Fault("the first step of the operand is dropped", replaces("_comes", lambda self, turn: turn["step"] < self.steps)),
    Fault("the last step is given, too", replaces("_leaves", lambda self, turn: turn["step"] >= 1)),
]
NARROW_CORES = {
    "previous_step": (PreviousStep(NARROW_IMAGE, states(NARROW_IMAGE, 0)), EvenFolding(3)),
    "previous_step_from": (PreviousStep(NARROW_IMAGE, Tensor((1, *NARROW_IMAGE.shape[1:]), Int(8))), EvenFolding(3)),
}
WIDE_CORES = {
    "previous_step": (PreviousStep(WIDE_IMAGE, states(WIDE_IMAGE, 0)), EvenFolding(16)),
}
