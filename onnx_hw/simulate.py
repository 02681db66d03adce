"""The simulation stage: the circuit, compiled, against golden and timing, with and without stalls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble import to_circuit
from onnx_hw.design import Design
from onnx_hw.errors import ExitCode, Problem, UserError
from onnx_hw.prove import Run, Stall, simulate_and_compare

if TYPE_CHECKING:
    from onnx_hw_sim.circuit import Simulator
    from onnx_hw_sim.tools import Tool

FULL_RATE_FRAMES = 4
STALLED_FRAMES = 4
CYCLES_AT_MOST = 2_000_000
"""Many samples are streamed at full rate as long as they fit in so many cycles; never fewer than FULL_RATE_FRAMES."""

INTERPRETED_FRAMES = 2
"""Amaranth's own simulator does a few thousand cycles a second."""

SEED = 20
"""Of the random stalls: two builds see the same ones."""


@dataclass(frozen=True)
class Proof:
    """What the simulation showed.

    Attributes:
        engine: name of the simulator.
        frames: streamed back to back at full rate; the stalled runs take fewer.
        runs: the one at full rate first.
        outputs: of that run: per output tensor, (frames, height, width, channels) integers.
    """

    engine: str
    frames: int
    runs: tuple[Run, ...]

    @property
    def outputs(self) -> Mapping[str, np.ndarray]:
        return self.runs[0].outputs

    @property
    def agrees(self) -> bool:
        return all(run.agrees for run in self.runs)

    def __repr__(self) -> str:
        values, firings = sum(r.values_compared for r in self.runs), sum(r.firings_compared for r in self.runs)
        wrong = sum(r.mismatches + r.firing_mismatches for r in self.runs)
        return f"Proof {self.engine}: {self.frames} frames, {values:,} values, {firings:,} firings, {wrong} wrong"


def frames_to_simulate(design: Design, given: int, engine: str) -> int:
    """How many of the given frames are streamed at full rate."""
    if engine == "interpreted":
        return min(given, INTERPRETED_FRAMES)
    interval = max(node.operator.cycles(design.folding(node)) for node in design.network.nodes)
    return min(given, max(FULL_RATE_FRAMES, CYCLES_AT_MOST // interval))


def compile_simulator(
    design: Design,
    folder: Path,
    *,
    warn: Callable[[str, str], None] = lambda message, hint: None,
    on_first_run: Callable[[Tool], None] | None = None,
) -> tuple[Simulator, object]:
    """The fastest simulator there is tools for, and the names of the circuit's parts.

    Raises:
        ToolMissing: no yosys or no Verilator.
        ToolFailed: one of them failed.
    """
    from onnx_hw_sim.compiled import CompiledSimulator
    from onnx_hw_sim.interpreted import InterpretedSimulator
    from onnx_hw_sim.tools import ToolMissing

    circuit, names, assembly = to_circuit(design)
    try:
        return CompiledSimulator.build(circuit, folder, on_first_run=on_first_run), names
    except ToolMissing as missing:
        if missing.tool != "c++":
            raise
        warn("no C++ compiler was found: a slow simulator proves fewer frames", str(missing))
        return InterpretedSimulator(circuit, assembly), names


def prove(
    design: Design,
    simulator: Simulator,
    names: object,
    golden: Mapping[str, np.ndarray],
    *,
    progress: Callable[[str], None] = lambda fact: None,
) -> Proof:
    """Stream frames at full rate, then some of them with random stalls at both ends; compare everything.

    Args:
        golden: every tensor, (frames, height, width, channels), at least two frames.
    """
    frames = frames_to_simulate(design, len(next(iter(golden.values()))), simulator.name)
    stalled = min(frames, STALLED_FRAMES if simulator.name != "interpreted" else INTERPRETED_FRAMES)
    plan = [(frames, full_rate(design, frames))]
    plan += [(stalled, random_stall(design, stalled, kind)) for kind in ("random", "bursts")]
    runs = []
    for count, stall in plan:
        progress(f"{count} frames, stalls: {stall.name}")
        part = {tensor: values[:count] for tensor, values in golden.items()}
        runs.append(simulate_and_compare(design, simulator, names, part, stall))  # type: ignore[arg-type]
    return Proof(simulator.name, frames, tuple(runs))


def full_rate(design: Design, frames: int) -> Stall:
    """The outside never waits."""
    offers = {e.tensor: np.zeros(frames * e.beats, dtype=np.int64) for e in design.edges() if e.producer is None}
    return Stall("none", offers, {})


def random_stall(design: Design, frames: int, kind: str) -> Stall:
    """Sources and sinks that hesitate: at random, or in bursts."""
    from onnx_hw_sim import stalls

    interval = max(node.operator.cycles(design.folding(node)) for node in design.network.nodes)
    offers, ready = {}, {}
    for k, edge in enumerate(design.edges()):
        tokens = frames * edge.beats
        if edge.producer is None:
            pace = min(0.9, 1.2 * edge.beats / interval)  # about the circuit's own, so that both ends starve and block
            offers[edge.tensor] = (
                stalls.random_offers(tokens, pace, SEED + k)
                if kind == "random"
                else stalls.burst_offers(tokens, 60, 60, SEED + k)
            )
        if edge.consumer is None:
            cycles = 2 * frames * interval
            ready[edge.tensor] = (
                stalls.random_ready(cycles, 0.5, SEED + k)
                if kind == "random"
                else stalls.burst_ready(cycles, 60, 60, SEED + k)
            )
    return Stall(kind, offers, ready)


def difference_error(proof: Proof) -> UserError:
    """The circuit is not what was promised: the first difference, in the model's own words."""
    problems = []
    for run in proof.runs:
        if run.difference is not None:
            problems.append(
                Problem(
                    "circuit-differs",
                    f"{run.difference} ({run.mismatches} values and {run.firing_mismatches} firings differ, "
                    f"stalls: {run.stall})",
                    hint="this is a bug of onnx-hw, or of a tool: please report it with the model",
                    stage="simulate",
                )
            )
        elif run.deadlock:
            problems.append(
                Problem("deadlock", "; ".join(run.deadlock), hint="deeper FIFOs, or a bug of onnx-hw", stage="simulate")
            )
    return UserError(*problems, exit_code=ExitCode.MISMATCH)
