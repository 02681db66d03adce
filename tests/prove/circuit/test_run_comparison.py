"""Windows of a recording are compared like the whole: the same counts, the same first difference."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit.check_run import NO_END, PlannedRun, stimulus_of
from onnx_hw.prove.circuit.prove import beats_of
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.prove.circuit.stalls import random_stall
from onnx_hw_sim.circuit import Recording
from support.design_bench import Bench, random_frames
from support.hand_built_designs import alone

DESIGN = alone(MatMul(Tensor((2, 3, 5), Int(8)), np.arange(15).reshape(3, 5) - 7), (2, 3), 6)
FRAMES = 3
WIRE = "e1_node_o"


@pytest.fixture(scope="module")
def made() -> tuple[Bench, PlannedRun, Recording]:
    bench, stall = Bench(DESIGN), random_stall(DESIGN, FRAMES, "random")
    plan = PlannedRun(beats_of(DESIGN, random_frames(DESIGN, FRAMES, 5)), FRAMES, stall, first_frame=7)
    end = plan.events(DESIGN)
    end.until(NO_END)
    return bench, plan, bench.simulator.run(stimulus_of(DESIGN, bench.names, plan.beats, stall, end.last + 64))


def compared(bench: Bench, plan: PlannedRun, recording: Recording, window: int) -> Run:
    comparison, events, begin = plan.comparison(DESIGN, bench.names), plan.events(DESIGN), 0
    while begin < recording.cycles:
        end = min(begin + window, recording.cycles)
        comparison.add(cut(recording, begin, end), events.until(begin + window))
        begin = end
    return comparison.result("random", recording, events.circle())


def cut(recording: Recording, begin: int, end: int) -> Recording:
    def within(cycles: np.ndarray) -> np.ndarray:
        return (begin <= cycles) & (cycles < end)

    return replace(
        recording,
        cycles=end,
        fires={name: cycles[within(cycles)] for name, cycles in recording.fires.items()},
        cycles_of={name: cycles[within(cycles)] for name, cycles in recording.cycles_of.items()},
        tokens={name: tokens[within(recording.cycles_of[name])] for name, tokens in recording.tokens.items()},
    )


def wrong_value(recording: Recording) -> Recording:
    tokens = {name: array.copy() for name, array in recording.tokens.items()}
    tokens[WIRE][9, 0] += 1
    tokens[WIRE][13, 1] += 1
    return replace(recording, tokens=tokens)


def late_firing(recording: Recording) -> Recording:
    """From the 20th firing on, each comes in the cycle of the next one; the last is missing."""
    ((engine, cycles),) = recording.fires.items()
    return replace(recording, fires={engine: np.delete(cycles, 20)})


def surplus_firing(recording: Recording) -> Recording:
    ((engine, cycles),) = recording.fires.items()
    return replace(recording, fires={engine: np.sort(np.append(cycles, recording.cycles - 1))})


def surplus_tokens(recording: Recording) -> Recording:
    """Those of a whole frame that never comes, and as many more."""
    seen, beats = recording.tokens[WIRE], DESIGN.edges()[-1].beats
    tokens, last = np.concatenate([seen, seen[:beats], 0 * seen[:beats]]), np.full(2 * beats, recording.cycles - 1)
    return replace(
        recording,
        tokens=recording.tokens | {WIRE: tokens},
        cycles_of=recording.cycles_of | {WIRE: np.concatenate([recording.cycles_of[WIRE], last])},
    )


@pytest.mark.parametrize(
    ("change", "values", "firings", "told"),
    [
        (lambda recording: recording, 0, 0, None),
        (wrong_value, 2, 0, r"node.o\[8, 1, 0, 0\]: golden"),
        (late_firing, 0, 34, "operation 20: predicted cycle"),
        (surplus_firing, 0, 1, "predicted never, circuit cycle"),
        (surplus_tokens, 18, 12, "node.o: a surplus token"),
    ],
)
def test_windows(
    made: tuple[Bench, PlannedRun, Recording],
    change: Callable[[Recording], Recording],
    values: int,
    firings: int,
    told: str | None,
) -> None:
    bench, plan, recording = made
    changed = change(recording)
    whole = compared(bench, plan, changed, recording.cycles)
    assert (whole.mismatches, whole.firing_mismatches) == (values, firings)
    assert re.search(told, str(whole.difference)) if told else whole.difference is None
    for window in (1, 7, 50):
        parts = compared(bench, plan, changed, window)
        assert all(np.array_equal(parts.outputs[name], whole.outputs[name]) for name in whole.outputs)
        assert replace(parts, outputs={}) == replace(whole, outputs={})
    if told is None:
        assert whole.agrees and whole.values_compared >= FRAMES * 2 * 3 * (5 + 3) and whole.max_fill["node.o"] > 1
