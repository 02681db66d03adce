"""Sensitivity: the noise that integers of each width add at the outputs of a float model, tensor by tensor.

The samples go through the model in floats; then one tensor after the other is rounded, all others being floats, and the
nodes behind it are computed once more. The noise at the logits is proportional to the mean square of the rounding, so
one measured width gives all others. Noise of several tensors nearly adds up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.onnx.evaluate.macs import macs_of
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.quantization.dequantize import dequantize
from onnx_hw.quantization.mixed_precision.logits import find_logits
from onnx_hw.quantization.ranges.batched_run import BatchedRun, Frame
from onnx_hw.quantization.ranges.calibrate import Range
from onnx_hw.quantization.ranges.mse import mse_ranges
from onnx_hw.quantization.scheme import Precision, Scheme
from onnx_hw.samples.sqnr import MIN_POWER, NoiseStatistics

PROBE_BITS = 8
"""Width of the measured integers, in bits."""

SEED = 20
"""Seed of the measured noise: two builds measure the same."""

MAX_MACS = 20_000_000_000
"""Greatest number of multiply-accumulates of all measurements: it limits the samples, of which two are used at least.
"""

MAX_SAMPLES = 8
"""Greatest number of samples."""


@dataclass(frozen=True, order=True)
class TensorKey:
    """Key of a tensor with a width of its own: "data" and the value's name, or "weights" and the node's label."""

    kind: str
    name: str


NoiseTable = Mapping[TensorKey, Mapping[int, float]]
"""Noise over signal, at the logits where it is largest; by tensor and bits."""


def weighted_products(graph: Graph) -> list[tuple[Node, str]]:
    """Return every node whose weights are quantized, and the name of its weights."""
    noises = []
    for node in graph.nodes:
        place = facts_of(node).weights if facts_of(node).effect is Effect.SUMS else None
        if place is not None and node.inputs[place.at] in graph.constants:
            noises.append((node, node.inputs[place.at]))
    return noises


def measure_noise(
    graph: Graph,
    points: Collection[str],
    frames: Sequence[Frame],
    spans: Mapping[str, Range],
    scheme: Scheme,
    widths: Collection[int],
) -> NoiseTable:
    """Measure the noise of every point and of all weights.

    Args:
        graph: float32 graph.
        points: names of the values that get integers.
        frames: samples, by graph input.
        spans: range of each point on samples.
        scheme: scheme that says which of the integers are symmetric.
        widths: widths, in bits.
    """
    products = weighted_products(graph)
    macs = sum(macs_of(node, graph) or 0 for node in graph.nodes)
    tries = macs * (len(points) + len(products)) // 2
    count = int(np.clip(MAX_MACS // max(1, tries), 2, MAX_SAMPLES))
    probe = _Probe(graph, frames[:: -(-len(frames) // count)])
    noises: dict[TensorKey, Mapping[int, float]] = {}
    tensors = len(points) + len(products)
    for name in points:
        noises[TensorKey("data", name)] = _of_data(
            probe, name, spans[name], scheme.data_precision(name), widths, tensors
        )
    for node, weights in products:
        noises[TensorKey("weights", node.label)] = _of_weights(
            probe, node, weights, scheme.weight_precision(node.label), widths
        )
    return noises


def _of_data(
    probe: _Probe, name: str, span: Range, precision: Precision, widths: Collection[int], tensors: int
) -> Mapping[int, float]:
    values = probe.exact.of(name)
    expected = mse_ranges(values, {*widths, PROBE_BITS}, tensors=tensors, symmetric=precision.symmetric)
    step = (expected[PROBE_BITS].high - expected[PROBE_BITS].low) / (1 << PROBE_BITS)
    random = np.random.default_rng(SEED)
    given = [  # uniform noise of one step; 0 has an integer
        np.where(array == 0, 0, array + random.uniform(-step / 2, step / 2, array.shape)).astype(array.dtype)
        for array in values
    ]
    size = sum(array.size for array in values)
    off = sum(float(np.square(a.astype(np.float64) - b).sum()) for a, b in zip(given, values, strict=True)) / size
    gain = probe.noise({name: given}) / off if off else 0.0
    whole = None if span.step is None else round((max(span.high, 0.0) - min(span.low, 0.0)) / float(span.step))
    lossless = {bits for bits in widths if whole is not None and whole < 1 << bits and not precision.symmetric}
    rare = min(chosen.saturation for chosen in expected.values())  # no width reduces this
    return {
        bits: 0.0 if bits in lossless else gain * (expected[bits].rounding + expected[bits].saturation - rare)
        for bits in widths
    }


def _of_weights(
    probe: _Probe, node: Node, name: str, precision: Precision, widths: Collection[int]
) -> Mapping[int, float]:
    place, weights = facts_of(node).weights, probe.graph.constants[name]
    assert place is not None
    if not np.isfinite(weights).all():
        return dict.fromkeys(widths, 0.0)  # refused later
    axis = place.axis_of_outputs(node, weights.ndim)
    grid = replace(precision, bits=PROBE_BITS).weight_grid(weights, axis)
    noise = probe.noise({}, node, {name: dequantize(grid.integers(weights, axis), grid, axis)})
    return {bits: noise * 4.0 ** (PROBE_BITS - bits) for bits in widths}


class _Probe:
    """Measurement: the model in floats, and the change of its logits when a tensor changes.

    Attributes:
        exact: every value of every sample, in floats.
    """

    def __init__(self, graph: Graph, frames: Sequence[Frame]) -> None:
        self.graph, self.exact = graph, BatchedRun(graph, frames)
        for node in graph.nodes:
            self.exact.step(node)
        self.logits = find_logits(graph)

    def noise(
        self,
        changed: Mapping[str, Sequence[np.ndarray]],
        product: Node | None = None,
        weights: Mapping[str, np.ndarray] | None = None,
    ) -> float:
        """Return noise over signal, at the logits where it is largest.

        Args:
            changed: changed values, by name, for each sample.
            product: node with changed weights.
            weights: its changed weights, by name.
        """
        given, others = BatchedRun(self.graph, ()), set(changed)
        given.values = [{**values} for values in self.exact.values]
        for name, arrays in changed.items():
            for values, array in zip(given.values, arrays, strict=True):
                values[name] = array
        for node in self.graph.nodes:
            if node is product or not others.isdisjoint(names_read(node)):
                given.step(node, weights if node is product else None)
                others.update(node.outputs)
        worst = 0.0
        for name in others.intersection(self.logits):
            likeness = NoiseStatistics()
            for a, b in zip(given.of(name), self.exact.of(name), strict=True):
                likeness = likeness.with_values(a, b)
            worst = max(worst, likeness.noise / max(likeness.signal, MIN_POWER))
        return worst
