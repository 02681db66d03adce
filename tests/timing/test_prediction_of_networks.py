"""Simulated networks: every firing of every engine where the law says, over four frames, with and without stalls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from support.design_bench import assert_proven, prove
from support.hand_built_designs import Sketch, unequal_branches
from support.long_runs import prove_networks
from support.random_designs import chains, likenesses, residuals


@pytest.mark.parametrize("kind", [chains, residuals, likenesses])
def test_random_networks(kind: Callable[[int, int], st.SearchStrategy[Design]]) -> None:
    """The share of every commit."""
    assert prove_networks(kind(3, 60), settings(max_examples=6))["networks"] >= 6


@pytest.mark.slow
@pytest.mark.parametrize("kind", [chains, residuals, likenesses])
def test_many_random_networks(kind: Callable[[int, int], st.SearchStrategy[Design]]) -> None:
    """Longer ones, of which some stop."""
    seen = prove_networks(kind(5, 250), settings(max_examples=4))
    assert seen["networks"] >= 4 and seen["firings"] >= 4 * seen["networks"], "four frames of at least one engine each"
    assert kind is not chains or not seen["deadlocks"], "in a chain of whole buffers nothing can stop"


def test_a_fifo_below_its_live_depth_deadlocks_and_says_who_waits_for_whom() -> None:
    assert_proven(prove(unequal_branches(4)))
    run = prove(unequal_branches(3))
    assert_proven(run, live=False)
    assert run.deadlock == (
        "fork.fork waits in operation 3 for room on fork.o1",
        "sum.add waits in operation 0 for a token on narrow.o",
        "narrow.gearbox waits in operation 0 for a token on widen.o",
        "widen.gearbox waits in operation 3 for a token on fork.o0",
    )


@pytest.mark.parametrize("false_start", [1, 17, 60, 61, 200])
def test_a_reset_in_mid_frame_leaves_no_trace(false_start: int) -> None:
    """A line buffer half full, accumulators and pipelines busy: the next frame is the first."""
    window = Window(Tensor((4, 4, 3), Int(8)), (3, 3), pads=(1, 1, 1, 1))
    weights = np.random.default_rng(0).integers(-128, 128, (5, 27))
    sketch = Sketch()
    (columns,) = sketch.add("window", window, [sketch.input("x", window.operand)], (3, 7), 5)
    sketch.add("matmul", MatMul(window.results()[0], weights), [columns], (7, 2), 3)
    assert_proven(prove(sketch.design(), frames=2, false_start=false_start))
