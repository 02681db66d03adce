"""Proof of a small design in Amaranth's simulator: random frames and stalls in, golden and the firing law beside it."""

from __future__ import annotations

import numpy as np

from onnx_hw.assemble.elaborate import to_circuit
from onnx_hw.ir import golden
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.prove.circuit.check_run import simulate_and_compare
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.prove.circuit.stalls import Stall
from onnx_hw_sim.interpreted import InterpretedSimulator


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
    values = golden.trace(network, inputs)
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
        values = every_tensor(self.design.network, inputs or random_frames(self.design, frames, seed))
        return simulate_and_compare(self.design, self.simulator, self.names, values, stall, false_start=false_start)


def prove(design: Design, *, frames: int = 3, seed: int = 0, stalls: bool = True, false_start: int = 0) -> Run:
    """One run of a design, with random stalls or none."""
    stall = random_stall(design, frames, seed) if stalls else no_stall(design, frames)
    return Bench(design).prove(stall, frames=frames, seed=seed, false_start=false_start)


def assert_proven(run: Run, *, live: bool = True) -> None:
    """Every value and every firing agrees; ``live`` asks that it finished as well."""
    assert run.mismatches == 0 and run.firing_mismatches == 0, str(run.difference)
    assert run.values_compared > 0 and run.firings_compared > 0
    assert not live or not run.deadlock, run.deadlock
