"""Small networks of hardware operators for tests, built without ONNX, and their proof by simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from onnx_hw_sim.interpreted import InterpretedSimulator

from onnx_hw.assemble import to_circuit
from onnx_hw.design import Design, FifoSize
from onnx_hw.network import Boundary, Network, Node, Tensor
from onnx_hw.ops.operator import Folding, Operator
from onnx_hw.prove import Run, Stall, simulate_and_compare


@dataclass
class Sketch:
    """A network under construction: ``add`` appends a node and returns its output tensors' names."""

    inputs: list[str] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    foldings: dict[str, Folding] = field(default_factory=dict)
    depths: dict[str, int] = field(default_factory=dict)

    def input(self, name: str, tensor: Tensor) -> str:
        self.inputs.append(name)
        self.tensors[name] = tensor
        return name

    def add(self, name: str, operator: Operator, inputs: list[str], lanes: tuple[int, int], *depths: int) -> list[str]:
        outputs = [f"{name}.{port}" for port in operator.outputs]
        self.nodes.append(Node(name, operator, tuple(inputs), tuple(outputs)))
        self.foldings[name] = Folding(*lanes)
        self.tensors |= dict(zip(outputs, operator.results(), strict=True))
        self.depths |= dict(zip(outputs, depths, strict=True))
        return outputs

    def design(self) -> Design:
        read = {name for node in self.nodes for name in node.inputs}
        outputs = [name for name in self.tensors if name not in read]
        network = Network(
            "sketch",
            tuple(self.nodes),
            self.tensors,
            tuple(self._boundary(name) for name in self.inputs),
            tuple(self._boundary(name) for name in outputs),
        )
        return Design(network, self.foldings, {n: FifoSize(d, 1, 1) for n, d in self.depths.items()})

    def _boundary(self, name: str) -> Boundary:
        tensor = self.tensors[name]
        return Boundary(name, name, (1, *tensor.shape), np.dtype(np.int8), np.arange(tensor.size))


def random_frames(design: Design, frames: int, seed: int) -> dict[str, np.ndarray]:
    """Integers over the whole range of every input."""
    generator = np.random.default_rng(seed)
    tensors = {b.tensor: design.network.tensors[b.tensor] for b in design.network.inputs}
    return {
        name: generator.integers(tensor.range[0], tensor.range[1] + 1, (frames, *tensor.shape))
        for name, tensor in tensors.items()
    }


def every_tensor(network: Network, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Golden values of all edges."""
    values = dict(inputs)
    for node in network.nodes:
        results = node.operator.golden(*(values[name] for name in node.inputs))
        values |= dict(zip(node.outputs, results, strict=True))
    return values


def trace(generator: np.random.Generator, cycles: int) -> np.ndarray:
    """A random stall pattern: full rate, random, or bursts."""
    kind = generator.integers(4)
    if kind == 0:
        return np.ones(cycles, dtype=bool)
    if kind == 1:
        return generator.random(cycles) < 0.7
    if kind == 2:
        return generator.random(cycles) < 0.3
    lengths = generator.integers(1, generator.choice([5, 60]) + 1, cycles)
    return np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)[:cycles]


def random_stall(design: Design, frames: int, seed: int, *, stalls: bool = True) -> Stall:
    """A source and a sink with moods of their own for every stream of the outside."""
    generator = np.random.default_rng(seed)
    offers, ready = {}, {}
    for edge in design.edges():
        tokens = edge.beats * frames
        if edge.producer is None:
            moods = trace(generator, 5 * tokens + 100) if stalls else np.ones(tokens, dtype=bool)
            cycles = np.flatnonzero(moods)[:tokens]
            late = cycles[-1] + 1 + np.arange(tokens - len(cycles))
            offers[edge.tensor] = np.concatenate([cycles, late])
        if edge.consumer is None:
            ready[edge.tensor] = trace(generator, 5 * tokens + 100) if stalls else np.ones(0, dtype=bool)
    return Stall("random" if stalls else "none", offers, ready)


def prove(design: Design, *, frames: int = 3, seed: int = 0, stalls: bool = True) -> Run:
    """Simulate a design in Amaranth's simulator and compare values and firings."""
    circuit, names, assembly = to_circuit(design)
    golden = every_tensor(design.network, random_frames(design, frames, seed))
    stall = random_stall(design, frames, seed, stalls=stalls)
    return simulate_and_compare(design, InterpretedSimulator(circuit, assembly), names, golden, stall, patience=2000)


def assert_proven(run: Run, *, live: bool = True) -> None:
    """Everything agrees; ``live`` asks that it finished as well."""
    assert run.mismatches == 0 and run.firing_mismatches == 0, (str(run.difference), run)
    assert run.values_compared > 0 or not live
    assert not live or not run.deadlock, run.deadlock
