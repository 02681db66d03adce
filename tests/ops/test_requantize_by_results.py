"""Requantizers of little latency, as on a loop over time: results that are looked up in place of a search, and
pipelines without stages that only wait.
"""

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
    quick, quickest = staircase.quicker(plain)
    assert quick == replace(plain, blocks=1) and not list(staircase.quicker(quickest))
    assert [*staircase.quicker(quick)] == [quickest] == [replace(plain, blocks=1, quick=1)]
    assert isinstance(staircase.circuit_of(plain), ThresholdRequantizer)
    assert isinstance(staircase.circuit_of(quick), TableRequantizer)
    assert staircase.latency(quick) == 5 < staircase.latency(plain)
    assert staircase.latency(quickest) == 2, "those of the memory"
    for folding in (quick, quickest):
        assert_facts(staircase, folding)
        Case(staircase, folding).check()


@pytest.mark.parametrize("quick", [0, 1])
def test_every_argument_of_results_that_are_looked_up(quick: int) -> None:
    staircase = sigmoid((32, 16, 1))
    every = np.arange(-256, 256).reshape(1, 32, 16, 1)
    design = alone(staircase, RequantizeFolding(1, blocks=1, quick=quick), 3)
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


def shift(
    shape: tuple[int, int, int], dropped: int, offset: Fraction, bounds: tuple[int, int], dtype: Int
) -> Requantize:
    grid = Grid.over(Int(16), zero_point=0).within(*bounds)
    return Requantize(Tensor(shape, dtype), (Fraction(1, 1 << dropped),), (offset,), grid)


BOUNDS = [(-4, 3), (0, 7), (-1000, 1000), (-128, 127)]


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("dtype", [Int(10), Int(9, False)])
def test_every_argument_of_a_shift(bounds: tuple[int, int], dtype: Int) -> None:
    """Ties, on either side of 0; beyond the bounds; without a saturation in front of the sum."""
    drawn = np.random.default_rng(abs(bounds[0]) + dtype.bits)
    for _ in range(3):
        dropped, offset = int(drawn.integers(1, 5)), Fraction(int(drawn.integers(-9, 10)), 2)
        operator = shift((32, 1 << dtype.bits - 5, 1), dropped, offset, bounds, dtype)
        folding = RequantizeFolding(1, quick=1)
        if operator.illegal(folding):
            continue  # a table or a search is cheaper
        assert_facts(operator, folding)
        every = np.arange(dtype.min, dtype.max + 1).reshape(1, *operator.operand.shape)
        design = alone(operator, folding, 3)
        run = Bench(design).prove(no_stall(design, 1), frames=1, inputs={"i": every})
        assert_proven(run)
        rounded = [round(Fraction(int(x), 1 << dropped) + offset) for x in every.reshape(-1)]
        assert run.outputs["node.o"].reshape(-1).tolist() == [min(max(y, bounds[0]), bounds[1]) for y in rounded]


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_a_shift_waits_for_nothing(lanes: int) -> None:
    operator = shift((4, 4, 3), 6, Fraction(0), (-256, 255), Int(19))
    (quick,) = operator.quicker(RequantizeFolding(lanes))
    assert quick == RequantizeFolding(lanes, quick=1) and not operator.illegal(quick)
    assert operator.latency(quick) == 3 == operator.latency(RequantizeFolding(lanes)) - 4
    assert operator.circuit_of(quick).clamp == Int(19), "the bounds are reached without a saturation"
    Case(operator, quick, seed=lanes).check()


def test_what_depends_on_the_channel_waits_for_its_constants() -> None:
    scales = Fraction(1, 64), Fraction(1, 128)
    operator = Requantize(Tensor((3, 3, 2), Int(19)), scales, (Fraction(0),), Grid.over(Int(8)))
    assert operator.illegal(RequantizeFolding(1, quick=1)) == "quick must be 0 here"
    assert shift((4, 4, 3), 6, Fraction(0), (-9, 9), Int(19)).illegal(RequantizeFolding(1, quick=2))
