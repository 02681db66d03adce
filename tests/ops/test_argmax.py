"""ArgMax: the circuit against golden and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.argmax import ArgMax, ArgMaxFolding
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import argmax as circuit
from support.design_bench import Bench, assert_proven, no_stall
from support.hand_built_designs import alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault, stale_accumulator
from support.operator_facts import assert_facts, assert_foldings_keep_up, beside
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import lane_counts, tensors, types


@st.composite
def argmaxes(draw: st.DrawFn) -> tuple[ArgMax, Folding]:
    """Over types so narrow that there are ties, and over others."""
    operand = draw(tensors(12))
    dtype = draw(st.one_of(st.builds(Int, st.integers(1, 2), st.booleans()), types))
    operator = ArgMax(replace(operand, dtype=dtype), draw(st.booleans()), draw(st.booleans()))
    return operator, ArgMaxFolding(draw(lane_counts(operand.channels)))


def random_argmax(draw: Random) -> Operator:
    return ArgMax(random_image(draw, (10, 16, 24)), draw.random() < 0.5, draw.random() < 0.5)


EVERY_KIND = list(product([True, False], [True, False]))  # (largest, last)
NARROW = [Int(1), Int(1, False), Int(2)]  # of which most elements are equal


@few
@given(cases(argmaxes()))
def test_any_argmax(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(("largest", "last"), EVERY_KIND)
@pytest.mark.parametrize("lanes", range(1, 8))
def test_every_folding(lanes: int, largest: bool, last: bool) -> None:
    operator = ArgMax(Tensor((2, 3, 7), Int(2)), largest, last)
    Case(operator, ArgMaxFolding(lanes), seed=lanes).check()


@pytest.mark.parametrize(("largest", "last"), EVERY_KIND)
@pytest.mark.parametrize(("channels", "lanes"), [(1, 1), (1, 2), (3, 5), (3, 7), (16, 5), (17, 16), (17, 9)])
def test_ragged_cuts(channels: int, lanes: int, largest: bool, last: bool) -> None:
    """The lanes beyond hold the type's extremes."""
    for dtype in (Int(1), Int(8, False)):
        Case(ArgMax(Tensor((3, 3, channels), dtype), largest, last), ArgMaxFolding(lanes), seed=channels).check()


@pytest.mark.parametrize("lanes", [1, 3, 4])
@pytest.mark.parametrize(("largest", "last"), EVERY_KIND)
def test_every_place_of_two_equal_ones(lanes: int, largest: bool, last: bool) -> None:
    """A pixel for every two of seven channels: in one beat or in two, or both the same."""
    pixels = np.zeros((1, 7, 7, 7), dtype=np.int64)
    for one, other in product(range(7), range(7)):
        pixels[0, one, other, [one, other]] = 1 if largest else -1
    operator = ArgMax(Tensor((7, 7, 7), Int(3)), largest, last)
    expected = np.fromfunction(np.maximum if last else np.minimum, (7, 7))
    assert np.array_equal(operator.golden(pixels)[0][0, :, :, 0], expected)
    design = alone(operator, (lanes, 1), 4)
    assert_proven(Bench(design).prove(no_stall(design, 1), frames=1, inputs={"i": pixels}))


@pytest.mark.parametrize(("largest", "last"), EVERY_KIND)
@pytest.mark.parametrize("dtype", [Int(1), Int(1, False), Int(8), Int(8, False), Int(24), Int(40, False)])
def test_extremes_of_every_type(dtype: Int, largest: bool, last: bool) -> None:
    for seed in range(2):
        Case(ArgMax(Tensor((2, 2, 10), dtype), largest, last), ArgMaxFolding(4), seed=seed).check()


@many
@given(argmaxes(), st.integers(0, 99))
def test_golden_is_the_definition(drawn: tuple[ArgMax, Folding], seed: int) -> None:
    operator, _ = drawn
    low, high = operator.operand.range
    image = np.random.default_rng(seed).integers(low, high + 1, (2, *operator.operand.shape))
    made = operator.golden(image)[0]
    assert made.shape == (2, *operator.operand.shape[:2], 1)
    for frame, row, column in np.ndindex(made.shape[:3]):
        elements = image[frame, row, column].tolist()
        best = max(elements) if operator.largest else min(elements)
        equal = [k for k, element in enumerate(elements) if element == best]
        assert made[frame, row, column, 0] == equal[-1 if operator.last else 0]


@pytest.mark.parametrize("channels", [1, 2, 3, 10, 256, 257, 1000])
def test_the_result_holds_every_index(channels: int) -> None:
    (result,) = ArgMax(Tensor((2, 3, channels), Int(8))).results()
    assert result.shape == (2, 3, 1)
    assert result.range == (0, channels - 1)
    assert result.dtype == Int(max(1, (channels - 1).bit_length()), False)


@pytest.mark.parametrize("lanes", [1, 3, 10])
def test_full_rate(lanes: int) -> None:
    operator = ArgMax(Tensor((3, 4, 10), Int(8)))
    depth = 2 + operator.latency(ArgMaxFolding(lanes))
    run = Case(operator, ArgMaxFolding(lanes), depth=depth, stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 4 * -(-10 // lanes)


@many
@given(argmaxes())
def test_facts(drawn: tuple[ArgMax, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    operator = ArgMax(Tensor((3, 4, 10), Int(8)))
    assert_foldings_keep_up(operator)
    assert list(operator.foldings(24, *beside(operator, 7, None))) == [ArgMaxFolding(7)]
    assert list(operator.foldings(24, *beside(operator, 3, None))) == list(operator.foldings(24)) == [ArgMaxFolding(5)]
    assert "in_lanes must be 1..10" in operator.illegal(ArgMaxFolding(11))


def test_is_told_by_its_kind() -> None:
    operand = Tensor((1, 1, 4), Int(8))
    assert [repr(ArgMax(operand, *kind)) for kind in EVERY_KIND] == ["ArgMax last", "ArgMax", "ArgMin last", "ArgMin"]


# ---- for the tests of every core -----------------------------------------------------------------------------------


def seeks_with(**changes: bool) -> Callable[[pytest.MonkeyPatch], None]:
    """Another extreme, or another one of equal elements."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.ArgMax.__init__
        patch.setattr(circuit.ArgMax, "__init__", lambda self, **named: original(self, **named | changes))

    return apply


def unused_lanes_may_win(patch: pytest.MonkeyPatch) -> None:
    """The tree believes that the last beat is full."""
    original = circuit.ArgMax._best_of_beat

    def best(self: Any, *arguments: Any) -> Any:
        channels, self.channels = self.channels, self.chunks * self.lanes
        found = original(self, *arguments)
        self.channels = channels
        return found

    patch.setattr(circuit.ArgMax, "_best_of_beat", best)


def lanes_are_misnumbered(patch: pytest.MonkeyPatch) -> None:
    """Two neighbours have each other's number."""
    original = circuit.Candidate
    patch.setattr(
        circuit,
        "Candidate",
        lambda first, key, lane: original(first, key, Const(first ^ 1) if isinstance(lane, Const) else lane),
    )


STRATEGIES = {"argmax": argmaxes()}
DRAWS = {"argmax": random_argmax}
CASES = {"argmax": Case(ArgMax(Tensor((2, 3, 7), Int(4))), ArgMaxFolding(5), depth=2, seed=2)}
FAULTS = [
    Fault("an accumulator is stale in frame two", stale_accumulator),
    Fault("ties go to the last", seeks_with(last=True)),
    Fault("the least is sought", seeks_with(largest=False)),
    Fault("an unused lane may win", unused_lanes_may_win),
    Fault("lanes are misnumbered", lanes_are_misnumbered),
]
NARROW_CORES = {
    "argmax": (ArgMax(NARROW_IMAGE), ArgMaxFolding(4)),
}
WIDE_CORES = {
    "argmax": (ArgMax(WIDE_IMAGE), ArgMaxFolding(16)),
}
