"""Batched run: all samples go through a graph together, node by node, so that each tensor is known for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.evaluate import compute, evaluate, tagged_constants
from onnx_hw.samples.samples import frame_count, one_frame

Frame = Mapping[str, np.ndarray]

MAX_SAMPLES = 256
"""Greatest number of samples."""

MAX_INPUT_ELEMENTS = 1 << 23
"""Greatest number of elements of the inputs of all samples."""

MAX_HELD_ELEMENTS = 1 << 27
"""Greatest number of elements that a run of all samples holds at once, 512 MB of float32; two runs go side by side."""


class BatchedRun:
    """Values by sample that later nodes read; those that no further node reads are dropped."""

    def __init__(self, graph: Graph, frames: Sequence[Frame]) -> None:
        self.values: list[dict[str, Any]] = [dict(frame) for frame in frames]
        self.constants: dict[str, Any] = tagged_constants(graph)
        self._last = {name: id(node) for node in graph.nodes for name in names_read(node)}

    def step(self, node: Node, constants: Mapping[str, np.ndarray] | None = None) -> None:
        """Compute a node, the next one of the graph.

        Args:
            constants: constants that replace some of its inputs, by name.
        """
        known = {**self.constants, **(constants or {})} if constants else self.constants
        for values in self.values:

            def run_graph(subgraph: Graph, inputs: Sequence[Any], outer: Mapping[str, Any] = values) -> list[Any]:
                names = [value.name for value in subgraph.inputs]
                results = [value.name for value in subgraph.outputs]
                given = dict(zip(names, inputs, strict=True))
                inner = evaluate(subgraph, given, results, outer={**self.constants, **outer})
                return [inner[name] for name in results]

            given = [(values[name] if name in values else known[name]) if name else None for name in node.inputs]
            values.update(zip(node.outputs, compute(node, given, run_graph), strict=True))

    def release(self, node: Node) -> None:
        """Drop the values that no later node reads."""
        done = [name for name in names_read(node) if self._last[name] == id(node)]
        done += [name for name in node.outputs if name not in self._last]
        for values in self.values:
            for name in done:
                values.pop(name, None)

    def of(self, name: str) -> list[np.ndarray]:
        """Return a tensor, for every sample."""
        return [values[name] if name in values else self.constants[name] for values in self.values]


def pick_samples(frames: Mapping[str, np.ndarray], graph: Graph) -> list[Frame]:
    """Return at most ``MAX_SAMPLES`` of the samples, evenly spread, and fewer where they or tensors are large.

    A model without inputs has one sample.

    Args:
        frames: by graph input, (frames, *shape).
        graph: the graph that they will be run through.
    """
    return [one_frame(frames, k) for k in range(0, frame_count(frames), sample_stride(frames, graph))]


def sample_stride(frames: Mapping[str, np.ndarray], graph: Graph) -> int:
    """Return the stride between the samples that ``pick_samples`` takes."""
    count = frame_count(frames)
    size = sum(array.size // max(count, 1) for array in frames.values())
    most = min(MAX_SAMPLES, MAX_INPUT_ELEMENTS // max(size, 1), MAX_HELD_ELEMENTS // max(held_elements(graph), 1))
    return -(-count // max(1, most))


def held_elements(graph: Graph) -> int:
    """Return the greatest number of elements of one sample that a ``BatchedRun`` holds at once, as far as shapes are
    known.
    """
    last = {name: k for k, node in enumerate(graph.nodes) for name in names_read(node)}
    held = {value.name: _elements(graph, value.name) for value in graph.inputs}
    most = sum(held.values())
    for k, node in enumerate(graph.nodes):
        held |= {name: _elements(graph, name) for name in node.outputs}
        most = max(most, sum(held.values()))
        held = {name: size for name, size in held.items() if last.get(name, -1) > k}
    return most


def _elements(graph: Graph, name: str) -> int:
    shape = graph.values[name].shape if name in graph.values else None
    return prod(size for size in shape or () if isinstance(size, int))
