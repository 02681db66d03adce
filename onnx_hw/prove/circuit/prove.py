"""Proof of a design (link 3): its circuit against golden and the predicted cycles, with and without stalls."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import NamedCircuit, bench_circuit, to_circuit
from onnx_hw.ir.design import Design
from onnx_hw.ir.golden import one_frame_more, walk_in_pieces
from onnx_hw.messages.errors import ExitCode, Problem, UserError
from onnx_hw.messages.html import render_value
from onnx_hw.prove.circuit import waves
from onnx_hw.prove.circuit.check_run import PlannedRun, simulate_together
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.prove.circuit.stalls import FULL_RATE, Stall, full_rate, random_stall
from onnx_hw.runtime.gc_pause import garbage_collection_paused
from onnx_hw.runtime.options import SimulationEngine

if TYPE_CHECKING:
    from onnx_hw.assemble.elaborate import CircuitNames
    from onnx_hw_sim.circuit import Circuit, Simulator
    from onnx_hw_tools.tools import Tool

FULL_RATE_FRAMES = 4
STALLED_FRAMES = 4
MAX_CYCLES = 2_000_000
"""Greatest number of cycles at full rate. At least ``FULL_RATE_FRAMES`` frames are streamed, or two large ones."""

LARGE_FRAME_CYCLES = 4_000_000
"""Cycles of a frame from which on two of them must be enough: back to back, so that state that leaks is seen."""

MAX_PIECES = 6
"""Greatest number of pieces of the frames at full rate, where runs are parallel: the last one is done sooner."""

REPLACEABLE = {"c++": "no C++ compiler", "verilator": "no Verilator"}
"""Tools without which Amaranth's own simulator takes over."""

SLOW_ENGINES = tuple(engine for engine in SimulationEngine if engine is not SimulationEngine.COMPILED)
SLOW_FRAMES = 2
"""Number of large frames, and of frames for slow engines. Amaranth's simulator computes a few thousand cycles a second,
the others not many more."""


@dataclass(frozen=True)
class Proof:
    """Result of the simulation.

    Attributes:
        engine: name of the simulator.
        frames: number of frames streamed back to back at full rate; the stalled runs take fewer.
        runs: all runs, those at full rate first; their frames overlap by one.
        verilog: the simulated cells as text; empty where Amaranth's own simulator ran.
        outputs: outputs of those runs, per tensor, (frames, height, width, channels) integers.
    """

    engine: str
    frames: int
    runs: tuple[Run, ...]
    verilog: str = ""

    @property
    def outputs(self) -> Mapping[str, np.ndarray]:
        first, *others = self.at_full_rate
        return {
            tensor: np.concatenate([values, *(other.outputs[tensor][1:] for other in others)])
            for tensor, values in first.outputs.items()
        }

    @property
    def at_full_rate(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.stall == FULL_RATE)

    @property
    def stalls(self) -> tuple[str, ...]:
        """Names of the ways in which the outside made the circuit wait."""
        return tuple(run.stall for run in self.runs if run.stall != FULL_RATE)

    @property
    def agrees(self) -> bool:
        return all(run.agrees for run in self.runs)

    def __str__(self) -> str:
        interval = f"{self.runs[0].interval_cycles:,} cycles a frame"
        return f"{self.frames} frames bit-exact with golden, every firing as predicted; {interval}"

    def __repr__(self) -> str:
        values, firings = sum(r.values_compared for r in self.runs), sum(r.firings_compared for r in self.runs)
        wrong = sum(r.mismatches + r.firing_mismatches for r in self.runs)
        return f"Proof {self.engine}: {self.frames} frames, {values:,} values, {firings:,} firings, {wrong} wrong"

    def _repr_html_(self) -> str:
        rows = [
            (run.stall, run.cycles, run.values_compared, run.mismatches, run.firings_compared, run.firing_mismatches)
            for run in self.runs
        ]
        difference = next((str(run.difference) for run in self.runs if run.difference is not None), "")
        verdict = (
            "the circuit is golden, and fires as predicted" if self.agrees else f"the circuit differs: {difference}"
        )
        columns = ("stalls", "cycles", "values compared", "wrong", "firings compared", "wrong")
        return render_value(f"Proof, {self.engine}: {verdict}", {"frames": self.frames}, "Runs", columns, rows)


def frames_to_simulate(design: Design, given: int, engine: str) -> int:
    """Return the number of given frames that are streamed at full rate."""
    if engine in SLOW_ENGINES:
        return min(given, SLOW_FRAMES)
    interval = design.interval
    least = SLOW_FRAMES if interval > LARGE_FRAME_CYCLES else FULL_RATE_FRAMES
    return min(given, max(least, MAX_CYCLES // interval))


def compiles() -> bool:
    """Say whether a circuit can be compiled here; otherwise Amaranth's own simulator is used."""
    from onnx_hw_tools import tools
    from onnx_hw_tools.tools import ToolMissing

    try:
        tools.find("c++"), tools.find("yosys")
    except ToolMissing:
        return False
    return True


def compile_simulator(
    design: Design,
    folder: Path,
    *,
    warn: Callable[[str, str], None] = lambda message, hint: None,
    on_first_run: Callable[[Tool], None] | None = None,
    engine: SimulationEngine | None = None,
    made: NamedCircuit | None = None,
) -> tuple[Simulator, CircuitNames]:
    """Compile a simulator, the fastest for which there are tools unless one is asked for; return it with the circuit's
    names.

    Args:
        made: ``bench_circuit(design)``; None to make it.

    Raises:
        ToolMissing: yosys is missing, without which no build can go on; or a program that a variable names.
        ToolFailed: one of them failed.
    """
    from onnx_hw_sim.interpreted import InterpretedSimulator
    from onnx_hw_tools.tools import ToolMissing

    if engine is SimulationEngine.INTERPRETED:
        circuit, names, assembly = to_circuit(design, netlist=False)
        return InterpretedSimulator(circuit, assembly), names
    circuit, names = made or bench_circuit(design)
    try:
        return _compiled(circuit, folder, on_first_run), names
    except ToolMissing as missing:
        if engine or missing.tool not in REPLACEABLE or os.environ.get(missing.variable, "").strip():
            raise
        warn(f"{REPLACEABLE[missing.tool]} was found: a slow simulator proves fewer frames", str(missing))
        circuit, names, assembly = to_circuit(design, netlist=False)
        return InterpretedSimulator(circuit, assembly), names


def _compiled(circuit: Circuit, folder: Path, on_first_run: Callable[[Tool], None] | None) -> Simulator:
    """Compile for several runs in lockstep; for Verilator, one by one, if lockstep cannot model the circuit."""
    from onnx_hw_sim.compiled import CompiledSimulator
    from onnx_hw_sim.lockstep.netlist import UnsupportedCircuit
    from onnx_hw_sim.lockstep.simulator import LockstepSimulator

    try:
        with garbage_collection_paused():  # a netlist is millions of small values
            return LockstepSimulator.build(circuit, folder, on_first_run=on_first_run)
    except UnsupportedCircuit:
        return CompiledSimulator.build(circuit, folder, on_first_run=on_first_run)


def plan_runs(design: Design, integers: Mapping[str, np.ndarray], engine: str) -> tuple[PlannedRun, ...]:
    """Plan the runs of a proof: frames at full rate, then some of them with random stalls at both ends.

    Args:
        integers: of the inputs, (frames, height, width, channels), at least two frames; an engine that is slow takes
            fewer of them.
    """
    frames = frames_to_simulate(design, len(next(iter(integers.values()))), engine)
    streamed = {tensor: array[:frames] for tensor, array in integers.items()}
    beats = beats_of_sequence(design, streamed)
    each = {edge.tensor: edge.beats for edge in design.edges()}
    more = {tensor: len(rows) // each[tensor] - frames for tensor, rows in beats.items()}

    def part(of: range) -> dict[str, np.ndarray]:
        return {
            tensor: rows[of.start * each[tensor] : (of.stop + more[tensor]) * each[tensor]]
            for tensor, rows in beats.items()
        }

    return tuple(PlannedRun(part(of), len(of), stall, of.start) for of, stall in _plan(design, frames, engine))


def beats_of_sequence(
    design: Design, integers: Mapping[str, np.ndarray], tensors: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Return what ``beats_of`` does for the frames since a reset.

    Where a design keeps state, edges that sources do not feed have the tokens of one frame more: what is made of the
    state that the last frame leaves. Other edges make nothing that is not made of padding.
    """
    if not design.network.keepers:
        return beats_of(design, integers, tensors)
    beats = beats_of(design, one_frame_more(integers), tensors)
    fed = {edge.tensor: edge.beats for edge in design.edges() if edge.producer is None}
    return {tensor: rows[: -fed[tensor]] if tensor in fed else rows for tensor, rows in beats.items()}


def beats_of(
    design: Design, integers: Mapping[str, np.ndarray], tensors: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Return the tokens of edges by golden, (frames · beats, width), in the narrowest type that holds them.

    Few frames at a time: their values take eight times the memory while they are computed.

    Args:
        integers: of the inputs, (frames, height, width, channels).
        tensors: the tensors of these edges; None for all.
    """
    frames = len(next(iter(integers.values())))
    edges = {edge.tensor: edge for edge in design.edges() if tensors is None or edge.tensor in tensors}
    taped = {tensor: array for tensor, array in design.taped_beats().items() if tensor in edges}
    beats = {
        tensor: np.empty((frames * edge.beats, edge.width), dtype=edge.type.narrow)
        for tensor, edge in edges.items()
        if tensor not in taped
    }
    beats |= {tensor: np.tile(array.astype(edges[tensor].type.narrow), (frames, 1)) for tensor, array in taped.items()}
    for first, tensor, array in walk_in_pieces(design.network, integers):
        if tensor not in edges:
            continue
        edge, (low, high) = edges[tensor], (edges[tensor].type.dtype.min, edges[tensor].type.dtype.max)
        if array.min(initial=low) < low or array.max(initial=high) > high:
            raise AssertionError(f"golden's `{tensor}` must lie in {low}..{high}")
        beats[tensor][first * edge.beats : (first + len(array)) * edge.beats] = edge.order.to_beats(array)
    return beats


def prove(
    design: Design,
    simulator: Simulator,
    names: CircuitNames,
    plan: Sequence[PlannedRun],
    *,
    progress: Callable[[str], None] = lambda fact: None,
) -> Proof:
    """Run what is planned on the circuit, several runs at a time, and compare everything."""
    from onnx_hw_sim.circuit import runs_at_once

    pieces = sum(run.stall.name == FULL_RATE for run in plan)
    frames = plan[pieces - 1].first_frame + plan[pieces - 1].frames
    progress(f"{frames} frames, stalls: {', '.join(dict.fromkeys(run.stall.name for run in plan))}")

    def run(group: Sequence[PlannedRun]) -> list[Run]:
        return simulate_together(design, simulator, names, group)

    at_once = runs_at_once(simulator)
    threads = min(os.cpu_count() or 1, len(plan)) if simulator.name == SimulationEngine.COMPILED else 1
    groups = max(threads, -(-len(plan) // at_once))
    pool = ThreadPoolExecutor(threads)
    try:
        done = tuple(pool.map(run, [plan[k::groups] for k in range(groups)]))
    finally:
        pool.shutdown(cancel_futures=True)
    runs = tuple(done[k % groups][k // groups] for k in range(len(plan)))
    return Proof(simulator.name, frames, runs, simulator.verilog)


def _plan(design: Design, frames: int, engine: str) -> Iterator[tuple[range, Stall]]:
    """Plan which frames each run streams, and how the outside stalls it."""
    slow = engine in SLOW_ENGINES
    at_once = slow or bool(design.network.keepers)  # each run begins with a reset, and a state with its first frame
    for piece in split_frames(frames, 1 if at_once else MAX_PIECES):
        yield piece, full_rate(design, len(piece))
    stalled = min(frames, SLOW_FRAMES if slow else STALLED_FRAMES)
    for kind in ("random", "bursts"):
        yield range(stalled), random_stall(design, stalled, kind)


def split_frames(frames: int, most: int = MAX_PIECES) -> list[range]:
    """Split frames into runs of about equal length, of at least ``FULL_RATE_FRAMES`` frames if there are enough.

    Each begins with the last frame of the one before, so that any two neighbours are seen back to back.
    """
    pairs = frames - 1
    count = max(1, min(most, pairs // (FULL_RATE_FRAMES - 1)))
    cuts = [pairs * k // count for k in range(count + 1)]
    return [range(begin, end + 1) for begin, end in itertools.pairwise(cuts)]


def write_waves(
    design: Design, proof: Proof, golden: Mapping[str, np.ndarray], folder: Path
) -> tuple[Path, str] | None:
    """Write the first run with a difference, or else the first one, as a waveform; see ``waves.write_waves``."""
    frames = frames_to_simulate(design, len(next(iter(golden.values()))), proof.engine)
    plan = list(zip(proof.runs, _plan(design, frames, proof.engine), strict=True))
    run, (of, stall) = next((entry for entry in plan if entry[0].difference is not None), plan[0])
    if run.deadlock:
        return None  # nothing moves; the message says what waits for what
    part = {tensor: array[of.start : of.stop] for tensor, array in golden.items()}
    return waves.write_waves(design, run, part, stall, folder)


def difference_error(proof: Proof, shown: tuple[Path, str] | None = None) -> UserError:
    """Make the error of a circuit that differs: the first difference, in the words of the model.

    Args:
        shown: waveform file of the first difference, and the command that opens it; None without one.
    """
    from onnx_hw_sim.waves import CYCLE_NS

    problems, reported = [], set[str]()
    for run in proof.runs:
        if run.stall in reported:
            continue  # of several runs at full rate, one is enough
        if run.difference is not None or run.deadlock:
            reported.add(run.stall)
        if run.difference is not None:
            where = f"{shown[0]}, at {run.difference.cycle * CYCLE_NS} ns: `{shown[1]}`" if shown else ""
            shown = None
            problems.append(
                Problem(
                    "circuit-differs",
                    f"{run.difference} ({run.mismatches} values and {run.firing_mismatches} firings differ, "
                    f"stalls: {run.stall})",
                    where,
                    hint="this is a bug of onnx-hw, or of a tool: please report it with the model",
                    stage="simulate",
                )
            )
        elif run.deadlock:
            problems.append(
                Problem("deadlock", "; ".join(run.deadlock), hint="deeper FIFOs, or a bug of onnx-hw", stage="simulate")
            )
    return UserError(*problems, exit_code=ExitCode.MISMATCH)
