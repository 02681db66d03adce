"""Fork: the circuit against golden and against the firing law."""

import numpy as np
import pytest
from hypothesis import given

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import ElementFolding, Folding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.tensor import Tensor
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_operators import forks


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
