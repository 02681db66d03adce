"""Loops that go round row by row: every solver predicts what is simulated, stops included; FIFOs keep the pace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.folding import ElementFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.size_fifos import size_fifos
from onnx_hw.timing.frame_times import Frames
from support.design_bench import Bench, assert_proven, no_stall, prove, random_stall
from support.random_loops import gated_cell, plain_cell, recurrent_designs, unsized_designs
from support.solvers import assert_solvers_agree, needs_compiler

CELLS, STEPS = 6, 5
"""Simulated cells, and the steps of their frames at most: a fraction of a second each."""


@needs_compiler
@settings(max_examples=25, derandomize=True, deadline=None)
@given(recurrent_designs(), st.integers(0, 999), st.sampled_from([0, 40, 333]))
def test_all_solvers_agree(design: Design, seed: int, interval: int) -> None:
    assert_solvers_agree(design, seed, interval)


@settings(max_examples=CELLS, derandomize=True, deadline=None)
@given(recurrent_designs(STEPS), st.integers(0, 999))
def test_drawn_cells_are_as_predicted(design: Design, seed: int) -> None:
    """Some of them stop."""
    assert_proven(prove(design, frames=3, seed=seed, false_start=seed % 3 * 11), live=False)


@pytest.mark.parametrize(("depth", "stops"), [(1, True), (4, False)])
def test_a_loop_stops_as_predicted(depth: int, stops: bool) -> None:
    """The state waits beside the gate that is made of it, all of its three channels."""
    weights = np.random.default_rng(0).integers(-3, 4, (3, 5))
    network = insert_forks(gated_cell(Tensor((4, 1, 2), Int(4)), np.array([[3, -2, 1]]), weights, 3))
    narrow = {node.name: node.operator.narrowest for node in network.nodes}
    design = Design(*insert_gearboxes(network, narrow), {})
    sizes = {edge.tensor: FifoSize(depth, 1, 1) for edge in design.edges() if edge.producer}
    run = prove(replace(design, fifos=sizes), frames=2)
    assert_proven(run, live=not stops)
    assert bool(run.deadlock) == stops


@settings(max_examples=3, derandomize=True, deadline=None)
@given(unsized_designs(STEPS), st.integers(0, 999))
def test_sized_fifos_keep_the_pace_of_the_loop(unsized: Design, seed: int) -> None:
    """In the circuit, at full rate; and under stalls nothing stops."""
    design = size_fifos(unsized)
    (loop,) = design.loops
    bench = Bench(design)
    run = bench.prove(no_stall(design, 8), frames=8)
    assert_proven(run)
    times = Frames(design).times(8, 0)
    assert times.elapsed(4, 8) <= 4 * design.interval, "on average no slower"
    assert design.interval >= loop.frame_cycles >= loop.step_cycles * (loop.steps - 1)
    assert_proven(bench.prove(random_stall(design, 3, seed), frames=3, seed=seed))


@settings(max_examples=8, derandomize=True, deadline=None)
@given(unsized_designs())
def test_live_depths_are_the_least(unsized: Design) -> None:
    """With one token less, and all other FIFOs as deep as a frame, the loop comes to a stop."""
    design = size_fifos(unsized)
    ample = {edge.tensor: 8 * edge.beats + 40 for edge in design.edges() if edge.producer}
    for tensor, size in design.fifos.items():
        assert Frames(design).times(4, 0, {**ample, tensor: size.live_depth}).live
        if size.live_depth > 1:
            assert not Frames(design).times(4, 0, {**ample, tensor: size.live_depth - 1}).live


def test_the_latency_of_a_step_sets_the_pace() -> None:
    """By hand: the latencies of the five cores, and a cycle in the FIFO of each. The beat of x went before."""
    weights, initial = np.ones((4, 8), dtype=np.int64), np.zeros((1, 4), dtype=np.int64)
    network = insert_forks(plain_cell(Tensor((9, 1, 4), Int(4)), initial, weights, 3))
    kinds = {node.name: node.operator.folding_type for node in network.nodes}
    lanes = {name: kind(*[4] * len(kind.required())) for name, kind in kinds.items()}
    design = size_fifos(Design(*insert_gearboxes(network, lanes), {}))
    latencies = {name: s.engines[0].latency for name, s in design.schedules().items()}
    (loop,) = design.loops
    assert len(loop.nodes) == 5
    assert loop.step_cycles == sum(latencies[name] + 1 for name in loop.nodes)
    assert design.slowest_loop == loop and design.interval == loop.frame_cycles
    assert str(loop) == f"the loop of {loop.step_cycles} cycles a step × 9 steps"


def test_a_tile_of_several_steps_is_refused() -> None:
    weights = np.ones((4, 8), dtype=np.int64)
    network = insert_forks(plain_cell(Tensor((6, 1, 4), Int(4)), np.zeros((1, 4), np.int64), weights, 3))
    foldings = {node.name: node.operator.narrowest for node in network.nodes}
    foldings["fork h"] = ElementFolding(1, 1, 2)
    design = Design(*insert_gearboxes(network, {**foldings, "fork h": ElementFolding(1)}), {})
    sizes = {edge.tensor: FifoSize(3, 1, 1) for edge in design.edges() if edge.producer}
    broken = replace(design, foldings={**design.foldings, "fork h": ElementFolding(1, 1, 2)}, fifos=sizes)
    with pytest.raises(UserError, match="on a loop a tile must lie within a row"):
        prove(broken)
