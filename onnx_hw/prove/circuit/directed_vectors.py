"""Directed vectors (link 3): operands of cores that compute, which drive them where frames may never do.

The sums before a requantizer seldom come near the ends of their range, so a fault of large values passes any number of
samples. Here such cores are placed in parallel in a circuit of their own, each as in the design, and get the operands
that drive them there (``Operator.test_vectors``). Sums, of products, of windows, of frames or of two tensors, get the
operands that make each as small and as large as it can be. Functions get both sides of every threshold, both ends of
the reachable range, every entry of a table, and numbers in between. What compares or normalizes the channels of a pixel
gets pixels that each channel decides. Values and firings are compared as in any run.

What does not depend on data needs no such vectors: an engine's loops end, and its weights are read to the last place,
in every frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.messages.errors import ExitCode, Problem, UserError
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.test_vectors import FRAMES, TestVectors
from onnx_hw.prove.circuit.check_run import PlannedRun, golden_beats, simulate_together
from onnx_hw.prove.circuit.prove import compile_simulator
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.prove.circuit.stalls import full_rate
from onnx_hw.prove.circuit.vector_coverage import DirectedVectorCoverage
from onnx_hw.runtime.listener import NULL_LISTENER, Listener
from onnx_hw.runtime.options import SimulationEngine

MAX_LANES, MAX_PRODUCTS = 1024, 1024
"""Greatest number of lanes of all functions, and of products of all sums: compiling more takes long. What is left out
is named in the report."""

MAX_CYCLES = {SimulationEngine.COMPILED: 1_000_000, SimulationEngine.INTERPRETED: 20_000}
"""Greatest number of cycles of a run of a core, by simulator."""


@dataclass(frozen=True)
class DirectedVectorResult:
    """Coverage of sums and functions by directed vectors, and whether they equal golden there.

    Attributes:
        coverage: the coverage; None where there are no such cores.
        runs: the compared runs; empty where no core got vectors.
    """

    coverage: DirectedVectorCoverage | None = None
    runs: tuple[Run, ...] = ()

    @property
    def agrees(self) -> bool:
        return all(run.agrees for run in self.runs)


def check_directed_vectors(
    design: Design, folder: Path, engine: str = SimulationEngine.COMPILED, listener: Listener = NULL_LISTENER
) -> DirectedVectorResult:
    """Run directed vectors through the cores of a design that compute.

    Args:
        folder: where the simulator is compiled.
        engine: simulator, ``compiled`` or ``interpreted``; any other one means ``compiled``.

    Raises:
        ToolMissing, ToolFailed: a program is missing or failed.
    """
    simulated_by = SimulationEngine.INTERPRETED if engine == SimulationEngine.INTERPRETED else SimulationEngine.COMPILED
    available = {
        node: vectors for node in design.network.nodes if (vectors := node.operator.test_vectors(design.folding(node)))
    }
    selected = _select(design, available, MAX_CYCLES[simulated_by])
    runs: list[Run] = []
    if selected:
        isolated, values = _isolated_design(design, selected)
        simulator, names = compile_simulator(isolated, folder, on_first_run=listener.first_run, engine=simulated_by)
        runs = simulate_together(isolated, simulator, names, _plan(isolated, values))
    coverage = DirectedVectorCoverage.count(selected, available) if available else None
    return DirectedVectorResult(coverage, tuple(runs))


def _plan(isolated: Design, values: Mapping[str, np.ndarray]) -> list[PlannedRun]:
    """Plan the runs; cores whose vectors are in one run get them in each."""
    stall, runs = full_rate(isolated, FRAMES), max(map(len, values.values())) // FRAMES
    parts = (
        {tensor: array[run * FRAMES % len(array) :][:FRAMES] for tensor, array in values.items()} for run in range(runs)
    )
    return [PlannedRun(golden_beats(isolated, part), FRAMES, stall, run * FRAMES) for run, part in enumerate(parts)]


def _select(
    design: Design, available: Mapping[NetworkNode, TestVectors], cycles: int
) -> dict[NetworkNode, TestVectors]:
    """Select the cores for which there is time, widest arguments first."""
    selected, lanes, products = {}, 0, 0
    for node in sorted(available, key=lambda node: -node.operator.operands()[0].dtype.bits):
        vectors, folding = available[node], design.folding(node)
        if vectors.operator is None or vectors.operator.cycles(folding) * FRAMES > cycles:
            continue
        width = 0 if vectors.lanes else vectors.operator.input_orders(folding)[0].width
        if lanes + width <= MAX_LANES and products + vectors.lanes <= MAX_PRODUCTS:
            selected[node], lanes, products = vectors, lanes + width, products + vectors.lanes
    return {node: selected[node] for node in available if node in selected}


def _isolated_design(
    design: Design, selected: Mapping[NetworkNode, TestVectors]
) -> tuple[Design, dict[str, np.ndarray]]:
    """Return a design of these nodes in parallel, each between a source and a sink, and all values of their frames."""
    nodes, entries, values = list[NetworkNode](), dict[str, Tensor](), dict[str, np.ndarray]()
    for node, vectors in selected.items():
        enters = zip(node.operator.inputs, node.inputs, strict=True)
        enter = tuple(f"{tensor} into {node.name}.{port}" for port, tensor in enters)
        nodes.append(replace(node, operator=vectors.operator, inputs=enter))
        entries |= zip(enter, vectors.operator.operands(), strict=True)
        values |= zip(enter, vectors.frames, strict=True)
        (leaves,) = node.outputs
        (values[leaves],) = vectors.operator.golden(*vectors.frames)
    network = Network(
        design.network.name,
        tuple(nodes),
        entries,
        tuple(_boundary(name, values[name]) for name in entries),
        tuple(_boundary(node.outputs[0], values[node.outputs[0]]) for node in nodes),
    )
    isolated = replace(
        design,
        network=network,
        foldings={node.name: design.foldings[node.name] for node in nodes},
        fifos={node.outputs[0]: design.fifos[node.outputs[0]] for node in nodes},
        delays={},
        flash=None,  # each core that takes weights from a tape has a source of its own
        tape=None,
    )
    return isolated, values


def _boundary(tensor: str, values: np.ndarray) -> Boundary:
    shape = (1, *values.shape[1:])
    return Boundary(tensor, tensor, shape, np.dtype(np.int64), np.arange(values[0].size))


def directed_vector_error(vectors: DirectedVectorResult) -> UserError:
    """Make the error of a sum or function that differs from golden: where, in the words of the model."""
    run = next(run for run in vectors.runs if not run.agrees)
    what = str(run.difference) if run.difference is not None else "; ".join(run.deadlock)
    problem = Problem(
        "circuit-differs",
        f"{what} ({run.mismatches} values and {run.firing_mismatches} firings differ)",
        "the core isolated, at the ends of its range and the thresholds of its function",
        "this is a bug of onnx-hw, or of a tool: please report it with the model",
        "simulate",
    )
    return UserError(problem, exit_code=ExitCode.MISMATCH)
