"""Simulators behind one interface, for links 3 and 4: the same stimulus, and the same recording of it.

The circuit: compiled; in Verilator's or Icarus' own process, driven by cocotb; in Amaranth's simulator. And the netlist
of the chip, cell by cell, of which only the outputs are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnx_hw.assemble.elaborate import CircuitNames, NamedCircuit, bench_circuit, edge_names
from onnx_hw.assemble.netlist import netlist_of
from onnx_hw.implement.synthesize import synthesize
from onnx_hw.ir.design import Design
from onnx_hw.messages.errors import user_error
from onnx_hw.prove.circuit.check_run import PlannedRun
from onnx_hw.prove.circuit.gate_level import load
from onnx_hw.prove.circuit.prove import compile_simulator, plan_runs
from onnx_hw.prove.circuit.stalls import SEED
from onnx_hw.runtime.background import beside
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw.runtime.listener import NULL_LISTENER, Listener
from onnx_hw.runtime.options import DEFAULT_BOARD, SimulationEngine

if TYPE_CHECKING:
    from onnx_hw_sim.circuit import Recording, Simulator, Stimulus
    from onnx_hw_sim.gates.simulator import GateSimulator


def build_simulator(
    design: Design,
    folder: Path,
    engine: SimulationEngine | None = None,
    listener: Listener = NULL_LISTENER,
    made: NamedCircuit | None = None,
) -> tuple[Simulator, CircuitNames]:
    """Build a simulator, the fastest for which there are tools unless one is asked for; return it with the circuit's
    names.

    Args:
        folder: folder of a build; a netlist in it is not synthesized again.
        made: ``bench_circuit(design)``; None to make it.

    Raises:
        ToolMissing, ToolFailed: a program is missing or failed.
        UserError: the netlist cannot be simulated.
    """
    place = folder / "simulation"
    if engine is SimulationEngine.GATES:
        return _gates(design, folder, listener)
    if engine in (SimulationEngine.ICARUS, SimulationEngine.VERILATOR):
        from onnx_hw_sim.cocotb_engine import CocotbSimulator

        circuit, names = made or bench_circuit(design)
        return CocotbSimulator.build(engine.value, circuit, place, on_first_run=listener.first_run), names
    return compile_simulator(
        design, place, warn=listener.warn, on_first_run=listener.first_run, engine=engine, made=made
    )


def build_bench(
    design: Design,
    integers: Mapping[str, np.ndarray],
    folder: Path,
    engine: SimulationEngine | None,
    listener: Listener,
    made: NamedCircuit | None = None,
) -> tuple[Simulator, CircuitNames, tuple[PlannedRun, ...]]:
    """Build a simulator and, while other programs compile it, plan the runs of a proof.

    Args:
        integers: integers of the inputs, (frames, height, width, channels).

    Raises:
        As ``build_simulator``.
    """
    likely = engine or SimulationEngine.COMPILED
    with beside(plan_runs, design, integers, likely) as planned:
        simulator, names = build_simulator(design, folder, engine, listener, made)
        if simulator.name != likely:
            return simulator, names, plan_runs(design, integers, simulator.name)
        return simulator, names, planned.result()


def _gates(design: Design, folder: Path, listener: Listener) -> tuple[Simulator, CircuitNames]:
    from onnx_hw_sim.gates.cell_models import UnmodelledCell

    chip = netlist_of(design)
    if chip.reset_delay is None:
        what = "the streams must be on the chip's pins; on this board they are behind its link"
        raise user_error("engine", what, where="--engine gates", hint=f"a bare chip, such as --board {DEFAULT_BOARD}")
    made = synthesize(BuildFolder(folder), chip.rtlil, chip.family, on_first_run=listener.first_run)
    try:
        simulator, roms, _ = load(design, chip, made.netlist)
    except UnmodelledCell as why:
        raise user_error("engine", f"every cell must have a model here: {why}", where="--engine gates") from None
    if roms.wrong:
        raise user_error("circuit-differs", roms.difference, hint="this is a bug of onnx-hw, or of a tool")
    return GateEngine(simulator), CircuitNames(edge_names(design), {})


class GateEngine:
    """Netlist as a ``Simulator``. It records the sinks only; 64 parallel runs differ in the contents of memories."""

    name = SimulationEngine.GATES.value
    verilog = ""

    def __init__(self, simulator: GateSimulator) -> None:
        self.simulator = simulator

    def run(self, stimulus: Stimulus) -> Recording:
        """Run from power-up, or a false start from a reset; return the first run that differs from others, if any."""
        from onnx_hw_sim.circuit import Recording
        from onnx_hw_sim.gates.native_gates import RUNS
        from onnx_hw_sim.gates.simulator import Pattern, Start, StreamPlan

        tokens = {name: array[None] for name, array in stimulus.tokens.items()}
        start = Start(stimulus.false_start or None, 0, 0)
        plan = StreamPlan(tokens, [Pattern(stimulus.offers, stimulus.ready)], [start] * RUNS, stimulus.cycles)
        runs = self.simulator.run(plan, seed=SEED)

        def same(one: int, name: str) -> bool:
            seen, first = runs[one][name], runs[0][name]
            return np.array_equal(seen.cycles, first.cycles) and np.array_equal(seen.values, first.values)

        taken = runs[next((k for k in range(RUNS) if not all(same(k, name) for name in runs[0])), 0)]
        return Recording(
            cycles=stimulus.cycles,
            fires={},
            cycles_of={name: seen.cycles for name, seen in taken.items()},
            tokens={name: seen.values for name, seen in taken.items()},
            finished=all(len(taken[name].cycles) >= count for name, count in stimulus.expected.items()),
        )
