"""Vectors that drive sums of products to their ends: which ends they reach, in how many cycles, on drawn layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Shape
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops import test_vectors
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import FRAMES, RUNS
from onnx_hw.prove.circuit import directed_vectors
from onnx_hw.runtime.options import SimulationEngine
from onnx_hw_rtl.cores import matmul
from support.hand_built_designs import alone


def ends_of(rows: np.ndarray, weights: np.ndarray, span: tuple[int, int]) -> dict[tuple[int, bool], int]:
    """The ends that the vectors make, by result and whether it is the greatest: each computed from its own weights."""
    reached = {}
    for result, row in enumerate(weights.tolist()):
        sums = (rows @ weights[result]).tolist()
        for greatest, pick in ((False, min), (True, max)):
            end = sum(pick(weight * x for x in span) for weight in row)
            if pick(sums) == end:
                reached[result, greatest] = end
    return reached


@st.composite
def layers(draw: st.DrawFn) -> tuple[MatMul, MatMulFolding]:
    """Layers whose weights are dense, sparse, of one bit, or those of groups, which are 0 elsewhere."""
    groups, pixels = draw(st.sampled_from([1, 1, 2, 3])), draw(st.sampled_from([1, 2]))
    inputs, results = groups * draw(st.integers(1, 12)), groups * draw(st.integers(1, 24))
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = seed.integers(*draw(st.sampled_from([(-128, 128), (-1, 2), (0, 2)])), (results, inputs))
    block = np.arange(results)[:, None] * groups // results == np.arange(inputs) * groups // inputs
    low, high = draw(st.sampled_from([(-128, 127), (0, 255), (-3, 90), (5, 9)]))
    image = Tensor((1, pixels * draw(st.integers(1, 3)), inputs), Int(9), low, high)
    lanes = draw(st.integers(1, inputs)), draw(st.integers(1, results))
    return MatMul(image, weights * block, groups), MatMulFolding(*lanes, pixels)


def rounded_up(n: int, step: int) -> int:
    return -(-n // step) * step


@settings(max_examples=120, deadline=None)
@given(layers(), st.integers(0, 200), st.integers(1, 400))
def test_ends_are_counted_as_they_are_reached(layer: tuple[MatMul, MatMulFolding], one_run: int, cycles: int) -> None:
    """The count is that of another computation; the cycles are kept; and the widest sums are never what is left out."""
    operator, folding = layer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_vectors, "ONE_RUN_CYCLES", one_run)
        patch.setattr(test_vectors, "MAX_CYCLES", cycles)
        vectors = operator.test_vectors(folding)
    assert vectors is not None and vectors.of_ends == 2 * len(operator.constants)
    span, per_pixel = operator.operand.range, operator.cycles(folding) // operator.operand.pixels * folding.pixels
    reached = ends_of(vectors.frames[0].reshape(-1, operator.operand.channels), operator.constants, span)
    assert vectors.ends == len(reached) > 0
    frames = vectors.frames[0]
    assert len(frames) in (FRAMES, RUNS * FRAMES) and frames.min() >= span[0] and frames.max() <= span[1]
    in_a_run = FRAMES * vectors.operator.cycles(folding)
    assert in_a_run <= max(cycles, one_run, operator.cycles(folding) * FRAMES * folding.pixels)
    every = ends_of(np.stack(all_vectors(operator)), operator.constants, span)
    assert len(every) == vectors.of_ends  # each end by itself can be reached
    assert max(map(abs, every.values())) in [abs(end) for end in reached.values()]
    if per_pixel * rounded_up(vectors.of_ends, RUNS * FRAMES * folding.pixels) <= cycles * RUNS:
        assert vectors.ends == vectors.of_ends


def all_vectors(operator: MatMul) -> list[np.ndarray]:
    """A vector for each end."""
    low, high = operator.operand.range
    return [np.where((row > 0) == greatest, high, low) for row in operator.constants for greatest in (False, True)]


def pointwise(groups: int = 1) -> MatMul:
    """A late pointwise layer of a MobileNet: 9 pixels, 256 channels."""
    weights = np.random.default_rng(4).integers(-127, 128, (256, 256))
    block = np.arange(256)[:, None] * groups // 256 == np.arange(256) * groups // 256
    return MatMul(Tensor((3, 3, 256), Int(8), -128, 127), weights * block, groups)


def test_a_pointwise_layer_is_driven_to_all_ends() -> None:
    """5,632 cycles a pixel, 512 ends: four runs of 720,896 cycles."""
    operator, folding = pointwise(), MatMulFolding(6, 2)
    vectors = operator.test_vectors(folding)
    assert vectors is not None and (vectors.ends, vectors.of_ends) == (512, 512)
    assert FRAMES * vectors.operator.cycles(folding) <= 1_000_000


def test_a_vector_serves_all_groups() -> None:
    """65,536 cycles a pixel leave time for 48 vectors; 16 groups share them."""
    dense, grouped = (pointwise(groups).test_vectors(MatMulFolding(1, 1)) for groups in (1, 16))
    assert dense is not None and dense.ends < 100
    assert grouped is not None and grouped.ends == grouped.of_ends == 512


def test_the_last_run_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last result needs the highest bit of the sums, and only the last of four runs makes its ends."""
    weights = np.ones((16, 3), dtype=np.int64)
    weights[-1] = 100, -100, 100
    operator = MatMul(Tensor((1, 1, 3), Int(8), -100, 127), weights)
    monkeypatch.setattr(test_vectors, "ONE_RUN_CYCLES", 0)
    design = alone(operator, (3, 4), 8)
    found = directed_vectors.check_directed_vectors(design, tmp_path, SimulationEngine.INTERPRETED)
    assert found.agrees and len(found.runs) == RUNS and found.coverage is not None and found.coverage.ends == 32
    begin = matmul.MatMul.__init__

    def narrow(self: Any, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self.result = Shape(self.result.width - 1, True)

    monkeypatch.setattr(matmul.MatMul, "__init__", narrow)
    found = directed_vectors.check_directed_vectors(design, tmp_path, SimulationEngine.INTERPRETED)
    assert [run.agrees for run in found.runs] == [True] * (RUNS - 1) + [False]
    assert "node.o[" in directed_vectors.directed_vector_error(found).problems[0].message
