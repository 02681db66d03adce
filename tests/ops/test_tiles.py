"""Products that hold a tile of pixels and take each weight once for it: values, firings, words, and broken circuits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.tiles import beats_of, pixels_of, tiles_of
from onnx_hw_rtl.cores import matmul as circuit
from onnx_hw_rtl.cores.tile_weights import TileWeightBuffer
from support.design_bench import Bench, assert_proven, no_stall, prove, random_stall
from support.hand_built_designs import alone, folded
from support.random_cases import few, many
from support.random_operators import lane_counts, pixel_counts, tensors

IMAGE = Tensor((2, 4, 5), Int(5))


def product(operand: Tensor, outputs: int, tile: int, capacity: int | None = None, seed: int = 0) -> MatMul:
    weights = np.random.default_rng(seed).integers(-8, 8, (outputs, operand.channels))
    return MatMul(operand, weights, capacity=capacity, taped=True, tile=tile)


@st.composite
def tiled_products(draw: st.DrawFn) -> tuple[MatMul, MatMulFolding]:
    operand, outputs = draw(tensors(9)), draw(st.integers(1, 7))
    tile, capacity = draw(st.sampled_from(tiles_of(operand))), draw(st.sampled_from([None, 1, 2, 3]))
    pixels = draw(pixel_counts(operand))
    beats = beats_of(tile, pixels, operand)
    assume(beats is not None)
    lanes = draw(lane_counts(operand.channels)), draw(lane_counts(outputs))
    operator, folding = product(operand, outputs, tile, capacity), MatMulFolding(*lanes, pixels, beats or 1)
    assume(not operator.illegal(folding))
    return operator, folding


@few
@given(tiled_products(), st.integers(1, 9), st.booleans())
def test_any_tile(drawn: tuple[MatMul, MatMulFolding], depth: int, stalls: bool) -> None:
    assert_proven(prove(alone(*drawn, depth), frames=3, stalls=stalls))


@pytest.mark.parametrize("capacity", [1, 2])
@pytest.mark.parametrize(
    ("tile", "folding"), [(2, (2, 3, 1, 2)), (8, (5, 2, 1, 8)), (4, (4, 1, 2, 2)), (8, (1, 7, 4, 2))]
)
def test_under_random_stalls_several_frames_back_to_back(tile: int, folding: tuple[int, ...], capacity: int) -> None:
    """Vectors and weights hesitate with moods of their own; a reset in mid-frame leaves no trace."""
    bench = Bench(alone(product(IMAGE, 7, tile, capacity), folding, 5))
    for seed in range(2):
        assert_proven(bench.prove(random_stall(bench.design, 4, seed), frames=4, seed=seed, false_start=9 * seed))


def test_two_groups_are_full_rate() -> None:
    """A tile is done in as many cycles as its pixels one by one."""
    operator, folding = product(IMAGE, 7, 4), MatMulFolding(2, 3, 1, 4)
    run = prove(alone(operator, folding, 20), frames=4, stalls=False)
    assert run.interval_cycles == operator.cycles(folding) == 8 * 3 * 3


@many
@given(tiled_products())
def test_a_weight_comes_once_a_tile(drawn: tuple[MatMul, MatMulFolding]) -> None:
    """The words of a frame are those of a tile, over and over."""
    operator, folding = drawn
    order, group = operator.taped_words(folding) or (None, 0)
    assert order is not None
    groups, beats = operator.turns(folding)
    assert group == beats and order.beats == order.times * groups * beats
    if operator.tile > 1:
        assert order.times == operator.operand.pixels // operator.tile
        assert (
            replace(operator, capacity=None).taped_bits == order.times * operator.weights.size * order.tensor.dtype.bits
        )
    schedule = operator.schedule(folding)
    assert schedule.engines[0].operations == order.beats and schedule.interval == operator.cycles(folding)


@many
@given(tensors(3), st.integers(1, 9))
def test_tiles_in_beats_and_in_pixels(tensor: Tensor, pixels: int) -> None:
    """All tiles are alike, and either number gives the other one."""
    pixels = min(pixels, tensor.shape[1])
    for tile in tiles_of(tensor)[1:]:
        assert tensor.pixels % tile == 0
        beats = beats_of(tile, pixels, tensor)
        if beats is None:
            assert tile < tensor.shape[1] and tile % pixels
        elif beats > 1:
            assert pixels_of(beats, pixels, tensor) == tile


@pytest.mark.parametrize(
    ("tile", "folding", "said"),
    [
        (4, (1, 1), "tile must be 4 here"),
        (4, (1, 1, 2, 4), "tile must be 2 here"),
        (2, (1, 1, 4, 1), "pixels must divide 2 here, those of a tile"),
        (1, (1, 1, 1, 2), "tile must be 1 here"),
    ],
)
def test_another_tile_is_refused(tile: int, folding: tuple[int, ...], said: str) -> None:
    operator = product(IMAGE, 7, tile)
    assert operator.illegal(folded(operator, folding)) == said


@pytest.mark.parametrize(("tile", "taped"), [(3, True), (5, True), (0, True), (16, True), (2, False)])
def test_a_tile_that_is_none_is_refused(tile: int, taped: bool) -> None:
    with pytest.raises(ValueError, match="a tile must have as many pixels as one of"):
        MatMul(IMAGE, np.ones((3, 5), np.int64), taped=taped, tile=tile)
    assert not taped or MatMul(IMAGE, np.ones((3, 5), np.int64)).on_tape(tile) is None


def never(*_: Any) -> int:
    return 0


BREAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "words of a group are read for one pixel": lambda patch: patch.setattr(TileWeightBuffer, "_again", never),
    "a group is given back after each pixel": lambda patch: patch.setattr(
        TileWeightBuffer, "_group_ends", TileWeightBuffer._ends
    ),
    "pixels of a tile share a place": lambda patch: patch.setattr(
        circuit, "place_in_tile", lambda m, engine, slots: circuit.MatMul._place_in_vector(CORE[-1], engine)
    ),
}
CORE: list[circuit.MatMul] = []


@pytest.mark.parametrize("broken", BREAKS)
def test_a_broken_core_is_seen(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = circuit.MatMul._replayed

    def remembered(core: circuit.MatMul, *others: Any) -> Any:
        CORE.append(core)
        return replayed(core, *others)

    monkeypatch.setattr(circuit.MatMul, "_replayed", remembered)
    design = alone(product(IMAGE, 7, 4), (2, 3, 1, 4), 5)
    assert_proven(Bench(design).prove(no_stall(design, 2), frames=2))
    BREAKS[broken](monkeypatch)
    run = Bench(design).prove(no_stall(design, 2), frames=2)
    assert run.mismatches or run.difference is not None or run.deadlock
