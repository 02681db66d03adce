"""Fork: the circuit against golden and against the firing law."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import ElementFolding, Folding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import element_foldings, tensors


@st.composite
def forks(draw: st.DrawFn) -> tuple[Fork, Folding]:
    operand = draw(tensors())
    return Fork(operand, draw(st.integers(2, 4))), draw(element_foldings(operand))


def random_fork(draw: Random) -> Operator:
    return Fork(random_image(draw), draw.randint(2, 3))


@few
@given(cases(forks()))
def test_any_fork(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("lanes", [5, 7])
def test_ragged_cuts(channels: int, lanes: int) -> None:
    Case(Fork(Tensor((3, 2, channels), Int(8)), 2), ElementFolding(lanes)).check()


def test_every_copy_is_the_operand() -> None:
    image = np.arange(12).reshape(1, 2, 2, 3)
    copies = Fork(Tensor((2, 2, 3), Int(8)), 3).golden(image)
    assert len(copies) == 3 and all(np.array_equal(copy, image) for copy in copies)


def test_full_rate() -> None:
    run = Case(Fork(Tensor((3, 4, 6), Int(8)), 2), ElementFolding(3), depth=2, stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 4 * 2


@many
@given(forks())
def test_facts(drawn: tuple[Fork, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    assert_foldings_keep_up(Fork(Tensor((3, 4, 6), Int(8)), 2))


# ---- for the tests of every core -----------------------------------------------------------------------------------


STRATEGIES = {"fork": forks()}
DRAWS = {"fork": random_fork}
CASES = {"fork": Case(Fork(Tensor((4, 4, 4), Int(8))), ElementFolding(2), depth=2)}
FAULTS: list[Fault] = []  # it computes nothing: the faults of every core are all there are
NARROW_CORES = {
    "fork": (Fork(NARROW_IMAGE, 3), ElementFolding(4)),
}
WIDE_CORES = {
    "fork": (Fork(WIDE_IMAGE, 2), ElementFolding(16)),
}
