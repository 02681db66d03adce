"""Simulated networks: every firing of every engine where the law says, over four frames, with and without stalls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from design_bench import Bench, assert_proven, no_stall, prove, random_stall
from drawn_designs import chains, residuals
from onnx_hw.design import Design
from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.window import Window
from onnx_hw.tensor import Tensor
from sketched_designs import Sketch, unequal_branches

FRAMES = 4


def prove_networks(designs: st.SearchStrategy[Design], profile: settings) -> Counter[str]:
    """Values and firings of random networks agree, and those that stop do so where it is predicted."""
    seen: Counter[str] = Counter()

    @profile
    @given(designs, st.integers(0, 999))
    def every_network(design: Design, seed: int) -> None:
        bench = Bench(design)
        deadlocks = set()
        for stall in (no_stall(design, FRAMES), random_stall(design, FRAMES, seed)):
            run = bench.prove(stall, frames=FRAMES, seed=seed, false_start=seed % 50)
            assert_proven(run, live=False)
            deadlocks.add(bool(run.deadlock))
            seen["firings"] += run.firings_compared
        assert len(deadlocks) == 1, "liveness does not depend on time"
        seen["networks"] += 1
        seen["deadlocks"] += deadlocks.pop()

    every_network()
    return seen


@pytest.mark.parametrize("kind", [chains, residuals])
def test_random_networks(kind: Callable[[int, int], st.SearchStrategy[Design]]) -> None:
    """The share of every commit; always the same ones."""
    assert prove_networks(kind(3, 60), settings(max_examples=13, derandomize=True))["networks"] >= 13


@pytest.mark.slow
@pytest.mark.parametrize("kind", [chains, residuals])
def test_many_random_networks(kind: Callable[[int, int], st.SearchStrategy[Design]]) -> None:
    seen = prove_networks(kind(5, 250), settings(max_examples=60))
    assert seen["networks"] >= 60 and seen["firings"] > 50_000
    assert (seen["deadlocks"] > 0) == (kind is residuals), "in a chain of whole buffers nothing can stop"


def test_a_fifo_below_its_live_depth_deadlocks_and_says_who_waits_for_whom() -> None:
    assert_proven(prove(unequal_branches(4)))
    run = prove(unequal_branches(3))
    assert_proven(run, live=False)
    assert run.deadlock == (
        "fork.fork waits in operation 3 for room on fork.o1",
        "sum.add waits in operation 0 for a token on narrow.o",
        "narrow.reader waits in operation 0 for narrow.writer to write into the buffer",
        "narrow.writer waits in operation 0 for a token on widen.o",
        "widen.reader waits in operation 0 for widen.writer to write into the buffer",
        "widen.writer waits in operation 3 for a token on fork.o0",
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
