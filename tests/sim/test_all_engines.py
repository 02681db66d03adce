"""Comparison of all engines: the same stimulus on a small network gives the same tokens in the same cycles."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.prove.circuit import check_run
from onnx_hw.prove.circuit.check_run import (
    PlannedRun,
    golden_beats,
    simulate_and_compare,
    simulate_together,
    stimulus_of,
)
from onnx_hw.prove.circuit.engines import build_simulator
from onnx_hw.prove.circuit.stalls import Stall, full_rate, random_stall
from onnx_hw.runtime.options import SimulationEngine
from onnx_hw_sim.circuit import Recording
from support.design_bench import every_tensor, random_frames
from support.hand_built_designs import Sketch, unequal_branches

FRAMES = 2


def product() -> Design:
    """Return a design with ragged beats and a table of weights."""
    sketch, x = Sketch(), Tensor((1, 2, 5), Int(4))
    weights = np.random.default_rng(0).integers(-8, 8, (3, 5))
    sketch.add("product", MatMul(x, weights), [sketch.input("x", x)], (2, 2), 6)
    return sketch.design()


def convolution() -> Design:
    """Return a window with pads, whose reader fires for a frame that never comes."""
    sketch, x = Sketch(), Tensor((3, 3, 1), Int(3, signed=False))
    window = Window(x, (2, 2), (1, 1), (1, 0, 0, 1))
    (columns,) = sketch.add("window", window, [sketch.input("x", x)], (1, 2), 5)
    weights = np.random.default_rng(2).integers(-2, 3, (2, 4))
    sketch.add("sums", MatMul(window.results()[0], weights), [columns], (2, 1), 4)
    return sketch.design()


NETWORKS: Mapping[str, Callable[[], Design]] = {
    "product": product, "convolution": convolution, "branches": lambda: unequal_branches(8),
}  # fmt: skip


def stalls(design: Design) -> list[tuple[Stall, int]]:
    """Return stalls, each with the number of cycles before a reset."""
    return [(full_rate(design, FRAMES), 7), (random_stall(design, FRAMES, "random"), 0)]


def recordings(design: Design, engine: SimulationEngine, folder: Path) -> list[Recording]:
    """Return the recording of every stall, compared with the golden model and with the predicted cycles."""
    simulator, names = build_simulator(design, folder, engine)
    assert simulator.name == engine.value
    golden = every_tensor(design.network, random_frames(design, FRAMES, seed=3))
    seen = []
    for stall, false_start in stalls(design):
        run = simulate_and_compare(design, simulator, names, golden, stall, false_start=false_start)
        assert run.agrees and run.values_compared and run.firings_compared, (engine, run.difference)
        stimulus = replace(
            stimulus_of(design, names, golden_beats(design, golden), stall, run.cycles), false_start=false_start
        )
        seen.append(simulator.run(stimulus))
    return seen


ICARUS = [SimulationEngine.ICARUS] * (shutil.which("iverilog") is not None)


def test_engines_agree(tmp_path: Path) -> None:
    """Compare all engines except Verilator's own process, which takes as long to build as all others together."""
    agree(product(), [SimulationEngine.COMPILED, SimulationEngine.GATES, *ICARUS], tmp_path)


@pytest.mark.parametrize("name", ["convolution", "branches"])
def test_engines_agree_on_others(name: str, tmp_path: Path) -> None:
    agree(NETWORKS[name](), [SimulationEngine.COMPILED], tmp_path)


def test_a_slow_engine_is_compared_in_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare what windows of a few cycles find with what the whole recording does."""
    monkeypatch.setattr(check_run, "WINDOW_CYCLES", 5)
    design = convolution()
    golden = every_tensor(design.network, random_frames(design, FRAMES, seed=3))
    simulator, names = build_simulator(design, tmp_path, SimulationEngine.INTERPRETED)
    for stall, _ in stalls(design):
        plan = PlannedRun(golden_beats(design, golden), FRAMES, stall)
        (seen,) = simulate_together(design, simulator, names, [plan])
        whole = simulate_and_compare(design, simulator, names, golden, stall)
        assert seen.agrees and seen.values_compared and seen.firings_compared
        assert replace(seen, outputs={}) == replace(whole, outputs={})
        assert all(np.array_equal(seen.outputs[name], values) for name, values in whole.outputs.items())


def agree(design: Design, engines: list[SimulationEngine], folder: Path) -> None:
    """Compare the recordings with each other, with the golden model and with the predicted cycles.

    Of the gate-level netlist only the outputs are compared.
    """
    wanted = recordings(design, SimulationEngine.INTERPRETED, folder)
    for engine in engines:
        assert_same(wanted, recordings(design, engine, folder), inside=engine is not SimulationEngine.GATES)


def assert_same(one: list[Recording], other: list[Recording], *, inside: bool) -> None:
    """Compare every transfer and, if the engine sees it, every firing; unused lanes may hold anything."""
    for a, b in zip(one, other, strict=True):
        assert (a.cycles, a.finished) == (b.cycles, b.finished)
        assert b.cycles_of
        assert set(a.cycles_of) == set(b.cycles_of) or not inside
        for name, cycles in b.cycles_of.items():
            assert np.array_equal(a.cycles_of[name], cycles), name
            assert a.tokens[name].shape == b.tokens[name].shape
        if inside:
            assert set(a.fires) == set(b.fires)
            assert all(np.array_equal(a.fires[engine], b.fires[engine]) for engine in a.fires)
