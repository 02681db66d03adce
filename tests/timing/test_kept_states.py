"""States kept from frame to frame: golden is the recurrence, solvers predict what is simulated, FIFOs keep the pace."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ops.kept_state import KeptState
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.size_fifos import size_fifos
from onnx_hw.timing.frame_times import Frames
from support.design_bench import Bench, assert_proven, no_stall, prove, random_stall
from support.random_states import STATE, cell_of_rows, keeping_designs, loop_within_frames, unsized_keepers
from support.solvers import assert_solvers_agree, needs_compiler

WEIGHTS = np.array([[1, -2, 3, 1, 0], [2, 1, -1, 0, -3], [-1, 1, 0, 2, 2]])
X = Tensor((2, 1, 2), Int(4))


def stepped(x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The next state of one row, in fractions."""
    sums = WEIGHTS @ np.concatenate([x, h])
    exact = [round(Fraction(int(total), 3) + Fraction(1, 3)) for total in sums]
    return np.clip(exact, STATE.min, STATE.max)


def test_golden_goes_on_where_the_frame_before_ended() -> None:
    """Row by row, and all frames in one sequence; a new call is a new sequence."""
    x = np.random.default_rng(0).integers(-8, 8, (3, *X.shape))
    of_rows = golden.trace(cell_of_rows(X, 5, WEIGHTS, 3), {"x": x})["h"]
    states = np.full((2, 3), 5)
    for frame in range(3):
        states = np.stack([stepped(x[frame, row, 0], states[row]) for row in range(2)])
        np.testing.assert_array_equal(of_rows[frame, :, 0], states)
    within = golden.trace(loop_within_frames(X, 5, WEIGHTS, 3), {"x": x})["states"]
    h = np.full(3, 5)
    for number in range(6):
        h = stepped(x.reshape(6, 2)[number], h)
        np.testing.assert_array_equal(within.reshape(6, 3)[number], h)


def test_pieces_of_frames_are_one_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    network = cell_of_rows(X, 0, WEIGHTS, 3)
    integers = {"x": np.random.default_rng(1).integers(-8, 8, (4, *X.shape))}
    monkeypatch.setattr(golden, "MAX_VALUES", 1)
    pieces = {name: array for _, name, array in golden.walk_in_pieces(network, integers)}
    np.testing.assert_array_equal(pieces["h"], golden.trace(network, integers)["h"])


@needs_compiler
@settings(max_examples=20, derandomize=True, deadline=None)
@given(keeping_designs(), st.integers(0, 999), st.sampled_from([0, 40, 333]))
def test_all_solvers_agree(design: Design, seed: int, interval: int) -> None:
    assert_solvers_agree(design, seed, interval)


@settings(max_examples=8, derandomize=True, deadline=None)
@given(keeping_designs(2), st.integers(0, 999))
def test_drawn_networks_are_as_predicted(design: Design, seed: int) -> None:
    """Some of them stop. A reset in mid-frame begins with the initial state."""
    assert_proven(prove(design, frames=4, seed=seed, false_start=seed % 3 * 31), live=False)


@settings(max_examples=4, derandomize=True, deadline=None)
@given(unsized_keepers(2), st.integers(0, 999))
def test_sized_fifos_keep_the_pace(unsized: Design, seed: int) -> None:
    """In the circuit, at full rate; and under stalls nothing stops."""
    design = size_fifos(unsized)
    bench = Bench(design)
    assert_proven(bench.prove(no_stall(design, 8), frames=8))
    times = Frames(design).times(8, 0)
    assert times.elapsed(4, 8) <= 4 * design.interval, "on average no slower"
    assert design.interval >= max(loop.frame_cycles for loop in design.loops)
    assert_proven(bench.prove(random_stall(design, 3, seed), frames=3, seed=seed))


@pytest.mark.parametrize("wrong", ["a state is forgotten", "the first value is another one"])
def test_a_wrong_golden_is_seen(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    design = size_fifos(_narrow())
    bench = Bench(design)
    if wrong == "a state is forgotten":
        patched = lambda self, operand: (np.full((max(1, len(operand)), *self.operand.shape), 0),)  # noqa: E731
    else:
        patched = lambda self, operand: (np.concatenate([np.full((1, *self.operand.shape), 1), operand[:-1]]),)  # noqa: E731
    monkeypatch.setattr(KeptState, "golden", patched)
    assert bench.prove(no_stall(design, 3), frames=3).mismatches > 0


def _narrow() -> Design:
    from onnx_hw.schedule.insert_forks import insert_forks
    from onnx_hw.schedule.insert_gearboxes import insert_gearboxes

    network = insert_forks(cell_of_rows(X, 0, WEIGHTS, 3))
    return Design(*insert_gearboxes(network, {node.name: node.operator.narrowest for node in network.nodes}), {})
