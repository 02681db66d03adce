"""SQNR by tensor: which integers of a float model lose most at its outputs, and what would help.

The samples go through the model; in the order of the graph one tensor after the other takes its integers, while all
tensors behind it are still floats. The growth of the noise at the logits is the loss of that tensor, so all losses add
up to that of the network. Weights may have a negative loss: they compensate the loss of data before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnx_hw.messages.toml import quoted
from onnx_hw.onnx.canonicalize.blockwise_weights import Blocks, blocks_of, is_blocked
from onnx_hw.onnx.evaluate.macs import macs_of
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.quantization.biases import BiasTerm
from onnx_hw.quantization.decisions import IntegerDecisions, StoredTerm
from onnx_hw.quantization.dequantize import dequantize, fake_quantize, representable_range
from onnx_hw.quantization.mixed_precision.logits import find_logits
from onnx_hw.quantization.mixed_precision.sensitivity import TensorKey
from onnx_hw.quantization.ranges.batched_run import BatchedRun, Frame
from onnx_hw.quantization.scheme import MAX_BITS, Precision
from onnx_hw.samples.sqnr import MIN_POWER, NoiseStatistics

MAX_MACS = 2_000_000_000
"""Greatest number of multiply-accumulates of all measurements: of a larger model fewer samples are used, and nothing is
measured where one sample is too many.
"""

MAX_SAMPLES = 8
"""Greatest number of samples."""

EXTRA_BITS = 2
"""Extra bits that the advice proposes."""

MIN_SHARE = 0.1
"""Least share of the noise that is worth mending."""


@dataclass(frozen=True)
class TensorLoss:
    """Loss of one tensor.

    Attributes:
        tensor: whose loss this is.
        bits: width of its integers.
        noise: noise that it adds, over the signal of the noisiest output; it may be negative for weights.
        share: share of all added noise, 0..1.
        saturated: share of its own squared error that numbers beyond its range make, 0..1.
        gain_db: gain in SQNR of ``EXTRA_BITS`` more bits; 0 where no wider integers exist.
    """

    tensor: TensorKey
    bits: int
    noise: float
    share: float
    saturated: float
    gain_db: float

    @property
    def sqnr_db(self) -> float | None:
        """SQNR of that output if this were all the noise; None where it adds none."""
        return float(-10 * np.log10(self.noise)) if self.noise > 0 else None

    @property
    def advice(self) -> str:
        """Advice for the user; empty where it would gain little."""
        if self.share < MIN_SHARE or not self.gain_db:
            return ""
        wider = f"{quoted(self.tensor.name)} = {self.bits + EXTRA_BITS} under [{self.tensor.kind}] of --precision"
        if self.saturated > 0.5:
            return f"numbers lie beyond its range: more samples with --calibration, or {wider}"
        return f"{wider} gains {self.gain_db:.1f} dB"


def loss_by_tensor(
    graph: Graph,
    frames: Sequence[Frame],
    terms: Mapping[str, BiasTerm],
    integers: IntegerDecisions,
    names: Mapping[str, str],
) -> tuple[TensorLoss, ...]:
    """Return the loss of each tensor, the largest first; empty where the measurement takes too long.

    Args:
        graph: float32 graph whose biases are separated.
        frames: samples, by graph input.
        terms: bias terms, by the product's result.
        integers: integers chosen for it.
        names: names for the result, of values that have another name there.
    """
    tensors = len(integers.data) + len(integers.weights)
    macs = sum(macs_of(node, graph) or 0 for node in graph.nodes) * (tensors // 2 + 1)
    count = min(MAX_SAMPLES, MAX_MACS // max(1, macs), len(frames))
    ends = find_logits(graph)
    if not count or not tensors or not ends:
        return ()
    walk = _Walk(graph, frames[:: -(-len(frames) // count)], terms, integers, ends)
    noises = np.array([[0.0] * len(ends), *walk.noises()])
    added = np.diff(noises[:, noises[-1].argmax()])
    total = float(added[added > 0].sum())
    found = []
    for (place, bits, saturated), noise in zip(walk.tensors, added.tolist(), strict=True):
        share = max(noise, 0.0) / total if total else 0.0
        gain = -10 * np.log10(1 - share * (1 - 4.0**-EXTRA_BITS)) if bits + EXTRA_BITS <= MAX_BITS else 0.0
        named = TensorKey(place.kind, names.get(place.name, place.name))
        found.append(TensorLoss(named, bits, noise, share, saturated, float(gain)))
    return tuple(sorted(found, key=lambda lost: -lost.noise))


class _Walk:
    """Walk through the graph, in floats and in integers: key, bits and saturated share of each tensor so far."""

    def __init__(
        self,
        graph: Graph,
        frames: Sequence[Frame],
        terms: Mapping[str, BiasTerm],
        integers: IntegerDecisions,
        ends: Sequence[str],
    ) -> None:
        self.graph, self.terms, self.integers, self.ends = graph, terms, integers, ends
        self.exact = BatchedRun(graph, frames)
        for node in graph.nodes:
            self.exact.step(node)
        self.given = BatchedRun(graph, ())
        self.given.values = [{**values} for values in self.exact.values]
        self.changed = set[str]()
        self.tensors: list[tuple[TensorKey, int, float]] = []

    def noises(self) -> list[list[float]]:
        """Return noise over signal at each of the logits, after each tensor."""
        found = [self._behind(0) for value in self.graph.inputs if self._round(value.name)]
        for at, node in enumerate(self.graph.nodes, 1):
            weighed = self._weighed(node)
            if weighed or not self.changed.isdisjoint(names_read(node)):
                self.given.step(node, weighed)
                self.changed.update(node.outputs)
            if weighed:
                found.append(self._behind(at))
            found += [self._behind(at) for name in node.outputs if self._round(name)]
        return found

    def _round(self, name: str) -> bool:
        """Round a value to its integers, if it has some; return whether it has."""
        grid = self.integers.data.get(name)
        if grid is None:
            return False
        every, beyond, (low, high) = NoiseStatistics(), NoiseStatistics(), map(np.float64, representable_range(grid))
        for values in self.given.values:
            before = values[name]
            values[name] = after = fake_quantize(grid, before)
            outside = (before < low) | (before > high)
            every, beyond = every.with_values(after, before), beyond.with_values(after[outside], before[outside])
        self.changed.add(name)
        self.tensors.append((TensorKey("data", name), grid.bits, beyond.noise / every.noise if every.noise else 0.0))
        return True

    def _weighed(self, node: Node) -> Mapping[str, np.ndarray]:
        """Return the dequantized weights of a node, by name; its bias term becomes integers, too."""
        place, stored = facts_of(node).weights, self.integers.weights.get(node.outputs[0])
        if place is None or stored is None:
            return {}
        axis = place.axis_of_outputs(node, stored.integers.ndim)
        self.tensors.append((TensorKey("weights", node.label), stored.grid.bits, 0.0))
        term = self.terms.get(node.outputs[0])
        if term is not None and term.name in self.integers.terms:
            made = self.integers.terms[term.name]
            numbers = made.integers * float(made.step) if isinstance(made, StoredTerm) else made
            self.given.constants[term.name] = numbers.astype(np.float32)
            self.changed.add(term.name)
        return {node.inputs[place.at]: dequantize(stored.integers, stored.grid, axis)}

    def _behind(self, at: int) -> list[float]:
        """Return noise over signal at each of the logits if the nodes from this one on compute in floats."""
        trial, changed = BatchedRun(self.graph, ()), set(self.changed)
        trial.constants, trial.values = self.given.constants, [{**values} for values in self.given.values]
        for node in self.graph.nodes[at:]:
            if not changed.isdisjoint(names_read(node)):
                trial.step(node)
                changed.update(node.outputs)
        found = []
        for name in self.ends:
            likeness = NoiseStatistics()
            for given, exact in zip(trial.of(name), self.exact.of(name), strict=True):
                likeness = likeness.with_values(np.where(np.isfinite(given), given, 0), exact)  # Log(0) is all noise
            found.append(likeness.noise / max(likeness.signal, MIN_POWER))
        return found


def sqnr_of_blockwise_weights(model: Model, precision: Precision) -> dict[str, float]:
    """Return the SQNR, in dB, of weights in blocks without a common scale, rounded to nearest, by node label.

    Args:
        precision: precision of the integers that they get.
    """
    blocks = {node.label: blocks_of(model.graph, node) for node in model.graph.nodes if is_blocked(node)}
    return {
        label: _sqnr_per_channel(each, precision) for label, each in blocks.items() if each and each.merged() is None
    }


def _sqnr_per_channel(blocks: Blocks, precision: Precision) -> float:
    """Return the SQNR, in dB, of integers with one scale per output."""
    weights = blocks.counts * blocks.steps
    axis = next((k for k in range(weights.ndim) if k != blocks.axis), 0)
    grid = precision.weight_grid(weights.astype(np.float32), axis)
    steps = np.array([float(step) for step in grid.step]).reshape([-1 if k == axis else 1 for k in range(weights.ndim)])
    noise = ((grid.integers(weights.astype(np.float32), axis) * steps - weights) ** 2).sum()
    return float(10 * np.log10(max((weights**2).sum(), 1e-300) / max(noise, 1e-300)))
