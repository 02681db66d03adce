"""KeptState: the circuit against golden and against the firing law, alone; on the way back in ``tests/ir``."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import EvenFolding, Folding
from onnx_hw.ops.kept_state import KeptState
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.permutation import of_pixels
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import kept_state as circuit
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import even_foldings, tensors


@st.composite
def kept_states(draw: st.DrawFn) -> tuple[KeptState, Folding]:
    operand = draw(tensors())
    initial = draw(st.sampled_from([0, operand.dtype.min, operand.dtype.max]))
    return KeptState(operand, initial), draw(even_foldings(operand.channels))


def random_kept_state(draw: Random) -> Operator:
    image = random_image(draw)
    return KeptState(image, draw.choice([0, image.dtype.max]))


@few
@given(cases(kept_states()))
def test_any_kept_state(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("lanes", [1, 3, 7])
def test_ragged_cuts(lanes: int) -> None:
    operand = Tensor((2, 2, 7), Int(8))
    Case(KeptState(operand, -3), EvenFolding(lanes)).check()


def test_golden_is_the_definition() -> None:
    """Frame after frame; the last one goes nowhere."""
    frames = np.arange(12).reshape(3, 2, 1, 2)
    (result,) = KeptState(Tensor((2, 1, 2), Int(6)), -3).golden(frames)
    assert result.reshape(3, 4).tolist() == [[-3, -3, -3, -3], [0, 1, 2, 3], [4, 5, 6, 7]]


def test_the_initial_value_widens_the_range() -> None:
    operand = Tensor((1, 1, 2), Int(6), 0, 7)
    assert KeptState(operand, -1).results()[0].range == (-1, 7)
    with pytest.raises(ValueError, match="must lie within i6, 32 does not"):
        KeptState(operand, 32)


def test_full_rate() -> None:
    """A beat per cycle: all that are given, then all that are taken."""
    run = Case(KeptState(WIDE_IMAGE), EvenFolding(8), depth=9, stalls=False, frames=4).check()
    assert run.interval_cycles == 2 * 5 * 4 * 4


def test_any_order_is_kept() -> None:
    operand = Tensor((3, 2, 2), Int(8))
    backwards = of_pixels((3, 2), np.arange(6)[::-1].copy(), np.arange(2))
    state = KeptState(operand, 5)
    changed, orders = state.reordered("i", backwards)
    frames = np.arange(24).reshape(2, 3, 2, 2)
    np.testing.assert_array_equal(
        changed.golden(orders["i"](frames))[0], orders["o"](state.golden(frames)[0]), strict=True
    )


@many
@given(kept_states())
def test_facts(drawn: tuple[KeptState, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    operand = Tensor((3, 4, 6), Int(8))
    assert_foldings_keep_up(KeptState(operand))


# ---- for the tests of every core -----------------------------------------------------------------------------------


def replaces(name: str, method: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(circuit.KeptState, name, method)


STRATEGIES = {"kept_state": kept_states()}
DRAWS = {"kept_state": random_kept_state}
FOUR = Tensor((2, 2, 4), Int(8))
CASES = {"kept_state": Case(KeptState(FOUR, 5), EvenFolding(2), depth=2, seed=2)}
FAULTS = [
    Fault("the first frame never ends", replaces("_is_over", lambda self, ends: Const(0))),
    Fault("the first frame ends too early", replaces("_is_over", lambda self, ends: Const(1))),
    Fault("a beat is taken before it is given", replaces("_takes", lambda self, turn: turn["turn"] == 0)),
    Fault("a beat is given after it is taken", replaces("_gives", lambda self, turn: turn["turn"] == 1)),
]
NARROW_CORES = {"kept_state": (KeptState(NARROW_IMAGE), EvenFolding(3))}
WIDE_CORES = {"kept_state": (KeptState(WIDE_IMAGE), EvenFolding(16))}
