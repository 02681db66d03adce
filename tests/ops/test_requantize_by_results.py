"""Functions that a requantizer looks up in place of a search of thresholds, as on a loop over time."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.lookup_requantizers import TableRequantizer, ThresholdRequantizer
from onnx_hw.exact.step_function import Steps
from onnx_hw.ops.requantize import Requantize, RequantizeFolding, Staircase
from onnx_hw.ops.tensor import Tensor
from support.design_bench import Bench, assert_proven, no_stall
from support.hand_built_designs import alone
from support.operator_facts import assert_facts
from support.random_cases import Case


def sigmoid(shape: tuple[int, int, int]) -> Staircase:
    """A function with 64 steps of arguments of 9 bits: a search of thresholds."""
    x = np.arange(-256, 256)
    values = np.rint(64 / (1 + np.exp(-x / 40))).astype(np.int64)
    low, high = int(values[0]), int(values[-1])
    exact = Steps(-256, 255, low, high, np.searchsorted(values, np.arange(low + 1, high + 1))[None] - 256)
    return Staircase(Tensor(shape, Int(9)), exact, Int(8))


@pytest.mark.parametrize("lanes", [1, 3])
def test_results_that_are_looked_up_take_less_time_than_a_search(lanes: int) -> None:
    staircase = sigmoid((32, 8, 3))
    plain = RequantizeFolding(lanes)
    (quick,) = staircase.quicker(plain)
    assert quick == replace(plain, blocks=1) and not list(staircase.quicker(quick))
    assert isinstance(staircase.circuit_of(plain), ThresholdRequantizer)
    assert isinstance(staircase.circuit_of(quick), TableRequantizer)
    assert staircase.latency(quick) == 5 < staircase.latency(plain)
    assert_facts(staircase, quick)
    Case(staircase, quick).check()


def test_every_argument_of_results_that_are_looked_up() -> None:
    staircase = sigmoid((32, 16, 1))
    every = np.arange(-256, 256).reshape(1, 32, 16, 1)
    design = alone(staircase, RequantizeFolding(1, blocks=1), 3)
    run = Bench(design).prove(no_stall(design, 1), frames=1, inputs={"i": every})
    assert_proven(run)
    expected = [round(64 / (1 + np.exp(-x / 40))) for x in range(-256, 256)]
    assert run.outputs["node.o"].reshape(-1).tolist() == expected


def test_lines_and_large_tables_have_no_quicker_form() -> None:
    line = Requantize(Tensor((3, 3, 5), Int(24)), (Fraction(1, 3001),), (Fraction(1, 7),), Grid.over(Int(8)))
    exact = Steps(-(2**15), 2**15 - 1, 0, 3, np.array([[-(2**14), 5, 2**14 + 3]]))
    for operator in (line, Staircase(Tensor((4, 4, 1), Int(16)), exact, Int(8))):
        assert not list(operator.quicker(RequantizeFolding(1)))
    assert sigmoid((4, 4, 1)).illegal(RequantizeFolding(1, 2, blocks=1)) == "steps must be 1 with blocks = 1 here"
