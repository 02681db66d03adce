"""Small networks of hardware operators for tests, built without ONNX, and their proof by simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onnx_hw.assemble import to_circuit
from onnx_hw.design import Design, FifoSize
from onnx_hw.exact.integers import Int
from onnx_hw.network import Boundary, Network, Node
from onnx_hw.ops.add import Add
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.operator import Operator
from onnx_hw.prove import Run, Stall, simulate_and_compare
from onnx_hw.tensor import Tensor
from onnx_hw_sim.interpreted import InterpretedSimulator


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

    def add(
        self, name: str, operator: Operator, inputs: list[str], folding: Folding | tuple[int, ...], *depths: int
    ) -> list[str]:
        """``folding`` may be the lanes in and out, and what else there is in the operator's own."""
        outputs = [f"{name}.{port}" for port in operator.outputs]
        self.nodes.append(Node(name, operator, tuple(inputs), tuple(outputs)))
        self.foldings[name] = folded(operator, folding)
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
        return Boundary(name, name, (1, *tensor.shape), np.dtype(np.int64), np.arange(tensor.size))


def folded(operator: Operator, folding: Folding | tuple[int, ...]) -> Folding:
    """The operator's folding with these lanes in and out; streams that are equally wide have one number for both."""
    if isinstance(folding, Folding):
        return folding
    kind = operator.folding_type
    one_number = "out_lanes" not in kind.names()
    return kind(folding[0], *folding[2:]) if one_number else kind(*folding)


def alone(operator: Operator, folding: Folding | tuple[int, ...], depth: int) -> Design:
    """A network of one node, called ``node``, with every output FIFO of one depth."""
    sketch = Sketch()
    inputs = [sketch.input(port, tensor) for port, tensor in zip(operator.inputs, operator.operands(), strict=True)]
    sketch.add("node", operator, inputs, folding, *[depth] * len(operator.outputs))
    return sketch.design()


def unequal_branches(depth: int) -> Design:
    """``x + x``, one copy by way of a beat of four channels: the other copy's FIFO must hold four tokens."""
    x = Tensor((1, 3, 4), Int(8))
    sketch = Sketch()
    copies = sketch.add("fork", Fork(x), [sketch.input("x", x)], (1, 1), 8, depth)
    (wide,) = sketch.add("widen", Gearbox(x), [copies[0]], (1, 4), 8)
    (narrow,) = sketch.add("narrow", Gearbox(x), [wide], (4, 1), 8)
    sketch.add("sum", Add(x, x), [narrow, copies[1]], (1, 1), 8)
    return sketch.design()


def random_frames(design: Design, frames: int, seed: int) -> dict[str, np.ndarray]:
    """Integers for every input, frame by frame from the whole range, or its ends alone, where sums are largest."""
    generator = np.random.default_rng(seed)
    values = {}
    for boundary in design.network.inputs:
        tensor = design.network.tensors[boundary.tensor]
        low, high = tensor.range
        anywhere = generator.integers(low, high + 1, (frames, *tensor.shape))
        at_the_ends = generator.choice([low, high], (frames, *tensor.shape), p=generator.choice([[0.5, 0.5], [0, 1]]))
        values[boundary.tensor] = np.where(generator.random((frames, 1, 1, 1)) < 0.7, anywhere, at_the_ends)
    return values


def every_tensor(network: Network, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Golden values of all edges; each lies in the range its type promises."""
    values = dict(inputs)
    for node in network.nodes:
        results = node.operator.golden(*(values[name] for name in node.inputs))
        values |= dict(zip(node.outputs, results, strict=True))
    for name, array in values.items():
        low, high = network.tensors[name].range
        assert low <= array.min() and array.max() <= high, f"{name} leaves {low}..{high}"
    return values


def trace(generator: np.random.Generator, cycles: int) -> np.ndarray:
    """(cycles,) bool: a random stall pattern: full rate, random, or bursts."""
    kind = generator.integers(4)
    if kind == 0:
        return np.ones(cycles, dtype=bool)
    if kind == 1:
        return generator.random(cycles) < 0.7
    if kind == 2:
        return generator.random(cycles) < 0.3
    lengths = generator.integers(1, generator.choice([5, 60]) + 1, cycles)
    return np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)[:cycles]


def no_stall(design: Design, frames: int) -> Stall:
    """Every token is offered at once, every sink always ready."""
    offers = {e.tensor: np.zeros(e.beats * frames, dtype=np.int64) for e in design.edges() if e.producer is None}
    return Stall("none", offers, {})


def random_stall(design: Design, frames: int, seed: int) -> Stall:
    """A source and a sink with moods of their own for every stream of the outside."""
    generator = np.random.default_rng(seed)
    offers, ready = {}, {}
    for edge in design.edges():
        tokens = edge.beats * frames
        if edge.producer is None:
            cycles = np.flatnonzero(trace(generator, 5 * tokens + 100))[:tokens]
            last = cycles[-1] if len(cycles) else -1
            offers[edge.tensor] = np.concatenate([cycles, last + 1 + np.arange(tokens - len(cycles))])
        if edge.consumer is None:
            ready[edge.tensor] = trace(generator, 5 * tokens + 100)
    return Stall("random", offers, ready)


class Bench:
    """A design in Amaranth's simulator, built once for several runs."""

    def __init__(self, design: Design) -> None:
        self.design = design
        circuit, self.names, assembly = to_circuit(design, netlist=False)
        self.simulator = InterpretedSimulator(circuit, assembly)

    def prove(
        self,
        stall: Stall,
        *,
        frames: int,
        seed: int = 0,
        false_start: int = 0,
        inputs: dict[str, np.ndarray] | None = None,
    ) -> Run:
        """Compare every value and every firing of random frames, or of those given."""
        golden = every_tensor(self.design.network, inputs or random_frames(self.design, frames, seed))
        return simulate_and_compare(self.design, self.simulator, self.names, golden, stall, false_start=false_start)


def prove(design: Design, *, frames: int = 3, seed: int = 0, stalls: bool = True, false_start: int = 0) -> Run:
    """One run of a design, with random stalls or none."""
    stall = random_stall(design, frames, seed) if stalls else no_stall(design, frames)
    return Bench(design).prove(stall, frames=frames, seed=seed, false_start=false_start)


def assert_proven(run: Run, *, live: bool = True) -> None:
    """Every value and every firing agrees; ``live`` asks that it finished as well."""
    assert run.mismatches == 0 and run.firing_mismatches == 0, str(run.difference)
    assert run.values_compared > 0 and run.firings_compared > 0
    assert not live or not run.deadlock, run.deadlock
