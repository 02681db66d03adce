"""Vectors that reach: sums of products and functions of one integer, shown what frames may never show them.

The sums before a requantizer seldom come near the ends of their range, so a fault of large values passes any number of
samples. Here such cores stand side by side in a circuit of their own, each just as in the design, and get what drives
them there (``Operator.test_vectors``): sums, of products or of two tensors, the operands that make each as small and as
large as it can be; functions both sides of every threshold, both ends of the reachable range, every place of a table,
numbers all over. Values and firings are compared as in any run.

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
from onnx_hw.ops.test_vectors import TestVectors
from onnx_hw.prove.circuit.check_run import Run, simulate_and_compare
from onnx_hw.prove.circuit.prove import compile_simulator
from onnx_hw.prove.circuit.stalls import full_rate
from onnx_hw.runtime.listener import NULL_LISTENER, Listener
from onnx_hw.runtime.options import SimulationEngine

LANES_AT_MOST, PRODUCTS_AT_MOST = 64, 16
"""Of all functions together, of all sums: what they take to compile is small beside the rest."""

CYCLES_AT_MOST = {SimulationEngine.COMPILED: 400_000, SimulationEngine.INTERPRETED: 4_000}
"""Of a core."""


@dataclass(frozen=True)
class DirectedVectorResult:
    """What sums and functions of one integer were shown, and whether they are golden there.

    Attributes:
        cores, of_cores: that were shown something; that there are.
        thresholds, of_thresholds: of step functions: those that were seen from both sides; all.
        places, of_places: of tables.
        ends, of_ends: of the reachable ranges of sums and of arguments, channel by channel.
        run: what was compared; None where no core was shown anything.
    """

    cores: int = 0
    of_cores: int = 0
    thresholds: int = 0
    of_thresholds: int = 0
    places: int = 0
    of_places: int = 0
    ends: int = 0
    of_ends: int = 0
    run: Run | None = None

    @property
    def agrees(self) -> bool:
        return self.run is None or self.run.agrees

    def __str__(self) -> str:
        parts = [f"{self.cores} of {self.of_cores} sums, requantizers and tables"]
        if self.of_thresholds:
            parts.append(f"{self.thresholds:,} of {self.of_thresholds:,} thresholds from both sides")
        if self.of_places:
            parts.append(f"{self.places:,} of {self.of_places:,} places of tables")
        return f"{', '.join(parts)}, {self.ends:,} of {self.of_ends:,} ends of their ranges"


def check_directed_vectors(
    design: Design, folder: Path, engine: str = SimulationEngine.COMPILED, listener: Listener = NULL_LISTENER
) -> DirectedVectorResult:
    """Show the sums and the functions of one integer of a design what frames may not show them.

    Args:
        folder: where the simulator is compiled.
        engine: who simulates, ``compiled`` or ``interpreted``; the others do what ``compiled`` does.

    Raises:
        ToolMissing, ToolFailed: a program is not there, or failed.
    """
    simulated_by = SimulationEngine.INTERPRETED if engine == SimulationEngine.INTERPRETED else SimulationEngine.COMPILED
    found = {
        node: vectors for node in design.network.nodes if (vectors := node.operator.test_vectors(design.folding(node)))
    }
    taken = _taken(design, found, CYCLES_AT_MOST[simulated_by])
    run = None
    if taken:
        alone, arguments = _alone(design, taken)
        simulator, names = compile_simulator(alone, folder, on_first_run=listener.first_run, engine=simulated_by)
        frames = len(next(iter(arguments.values())))
        run = simulate_and_compare(alone, simulator, names, arguments, full_rate(alone, frames))
    return DirectedVectorResult(
        len(taken),
        len(found),
        sum(vectors.thresholds for vectors in taken.values()),
        sum(vectors.of_thresholds for vectors in found.values()),
        sum(vectors.places for vectors in taken.values()),
        sum(vectors.of_places for vectors in found.values()),
        sum(vectors.ends for vectors in taken.values()),
        sum(vectors.of_ends for vectors in found.values()),
        run,
    )


def _taken(design: Design, found: Mapping[NetworkNode, TestVectors], cycles: int) -> dict[NetworkNode, TestVectors]:
    """Those for which there is time, widest arguments first."""
    taken, lanes, products = {}, 0, 0
    for node in sorted(found, key=lambda node: -node.operator.operands()[0].dtype.bits):
        vectors, folding = found[node], design.folding(node)
        if vectors.operator is None or vectors.operator.cycles(folding) * len(vectors.frames[0]) > cycles:
            continue
        width = 0 if vectors.lanes else vectors.operator.input_orders(folding)[0].width
        if lanes + width <= LANES_AT_MOST and products + vectors.lanes <= PRODUCTS_AT_MOST:
            taken[node], lanes, products = vectors, lanes + width, products + vectors.lanes
    return {node: taken[node] for node in found if node in taken}


def _alone(design: Design, taken: Mapping[NetworkNode, TestVectors]) -> tuple[Design, dict[str, np.ndarray]]:
    """The nodes side by side, each between a source and a sink, and all values of their frames."""
    nodes, entries, values = list[NetworkNode](), dict[str, Tensor](), dict[str, np.ndarray]()
    for node, vectors in taken.items():
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
    alone = replace(
        design,
        network=network,
        foldings={node.name: design.foldings[node.name] for node in nodes},
        fifos={node.outputs[0]: design.fifos[node.outputs[0]] for node in nodes},
        delays={},
    )
    return alone, values


def _boundary(tensor: str, values: np.ndarray) -> Boundary:
    shape = (1, *values.shape[1:])
    return Boundary(tensor, tensor, shape, np.dtype(np.int64), np.arange(values[0].size))


def directed_vector_error(found: DirectedVectorResult) -> UserError:
    """A sum or a function of one integer is not golden: where, in the model's own words."""
    assert found.run is not None
    first = found.run.difference
    what = str(first) if first is not None else "; ".join(found.run.deadlock)
    problem = Problem(
        "circuit-differs",
        f"{what} ({found.run.mismatches} values and {found.run.firing_mismatches} firings differ)",
        "the core alone, at the ends of its range and the thresholds of its function",
        "this is a bug of onnx-hw, or of a tool: please report it with the model",
        "simulate",
    )
    return UserError(problem, exit_code=ExitCode.MISMATCH)
