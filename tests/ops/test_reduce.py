"""Reduce: the circuit against golden and against the firing law."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.reduce import Reduce, ReduceFolding
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import reduce as circuit
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault, stale_accumulator
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import lane_counts, tensors


@st.composite
def reductions(draw: st.DrawFn) -> tuple[Reduce, Folding]:
    operand = draw(tensors())
    folding = ReduceFolding(draw(lane_counts(operand.channels)), draw(st.sampled_from([0, operand.pixels])))
    return Reduce(operand, draw(st.sampled_from(["max", "min", "sum"]))), folding


def random_reduce(draw: Random) -> Operator:
    return Reduce(random_image(draw, (4, 8, 16, 32)), draw.choice(("max", "sum")))


@few
@given(cases(reductions()))
def test_any_reduction(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize(("channels", "lanes"), [(3, 5), (3, 7), (16, 5), (16, 7), (16, 16), (1, 1)])
def test_ragged_cuts(kind: str, channels: int, lanes: int) -> None:
    for tile in (0, 6):
        Case(Reduce(Tensor((3, 2, channels), Int(8)), kind), ReduceFolding(lanes, tile)).check()


@pytest.mark.parametrize("dtype", [Int(8), Int(8, False), Int(1), Int(16)])
def test_sums_of_extremes_fit(dtype: Int) -> None:
    for seed in range(3):
        Case(Reduce(Tensor((3, 3, 2), dtype), "sum"), ReduceFolding(1), seed=seed).check()


def test_golden_is_the_definition() -> None:
    image = np.array([[[[1, -5], [4, 2]]], [[[7, 0], [-1, 3]]]])  # two frames of 1 × 2 pixels
    operand = Tensor((1, 2, 2), Int(8))
    assert Reduce(operand, "max").golden(image)[0].tolist() == [[[[4, 2]]], [[[7, 3]]]]
    assert Reduce(operand, "min").golden(image)[0].tolist() == [[[[1, -5]]], [[[-1, 0]]]]
    assert Reduce(operand, "sum").golden(image)[0].tolist() == [[[[5, -3]]], [[[6, 3]]]]


@pytest.mark.parametrize("tile", [0, 12])
def test_full_rate(tile: int) -> None:
    folding = ReduceFolding(3, tile)
    run = Case(Reduce(Tensor((3, 4, 6), Int(8)), "sum"), folding, depth=2, stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 4 * 2


def test_whole_channels_are_taken_where_they_come_so() -> None:
    operator = Reduce(image := Tensor((3, 4, 6), Int(8)), "sum")
    offered = list(operator.foldings(1 << 20, Order(image, 2, 1, tile=12)))
    assert ReduceFolding(2, 12) in offered and ReduceFolding(2) in offered
    assert not any(folding.in_tile for folding in operator.foldings(1 << 20, Order(image, 2, 1, tile=4)))
    assert not any(folding.in_tile for folding in operator.foldings(1 << 20))


def test_refuses_tiles_that_are_not_all_pixels() -> None:
    operator = Reduce(Tensor((3, 4, 6), Int(8)), "sum")
    assert operator.illegal(ReduceFolding(2, 4)) == "in_tile must be 0, or 12 here, all pixels"
    assert not operator.illegal(ReduceFolding(2, 12)) and not operator.illegal(ReduceFolding(2))


@many
@given(reductions())
def test_facts(drawn: tuple[Reduce, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    assert_foldings_keep_up(Reduce(Tensor((3, 4, 6), Int(8)), "max"))


def test_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="a max, a min or a sum, not 'mean'"):
        Reduce(Tensor((1, 1, 1), Int(8)), "mean")


# ---- for the tests of every core -----------------------------------------------------------------------------------


def one_pixel_less(patch: pytest.MonkeyPatch) -> None:
    original = circuit.Reduce.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named | {"pixels": named["pixels"] - 1})

    patch.setattr(circuit.Reduce, "__init__", init)


STRATEGIES = {"reduce": reductions()}
DRAWS = {"reduce": random_reduce}
CASES = {
    "reduce": Case(Reduce(Tensor((1, 2, 6), Int(8)), "sum"), ReduceFolding(2), depth=2, seed=3),
    "reduce_by_channels": Case(Reduce(Tensor((1, 2, 6), Int(8)), "sum"), ReduceFolding(2, 2), depth=2, seed=3),
}
FAULTS = [
    Fault("an accumulator is stale in frame two", stale_accumulator),
    Fault("the last pixel belongs to the next frame", one_pixel_less),
]
NARROW_CORES = {
    "reduce": (Reduce(NARROW_IMAGE, "sum"), ReduceFolding(4)),
}
WIDE_CORES = {
    "reduce": (Reduce(WIDE_IMAGE, "sum"), ReduceFolding(16)),
    "reduce_by_channels": (Reduce(WIDE_IMAGE, "sum"), ReduceFolding(16, WIDE_IMAGE.pixels)),
    "reduce_many": (Reduce(Tensor((5, 4, 48), Int(8)), "sum"), ReduceFolding(16)),
}
