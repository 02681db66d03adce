"""Batched run: all samples go through a graph together, node by node, so that each tensor is known for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.loops import TimeLoop, delayed_value, delayed_values, is_delay, loops_of
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute, computed_in_steps, evaluate, tagged_constants
from onnx_hw.onnx.operators.facts import LINEAR_EFFECTS, Effect
from onnx_hw.onnx.operators.run_loop import ComputeStep, Replace, delayed, run_loop
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
        self._loops = loops_of(graph.nodes)
        self._ran: dict[str, list[np.ndarray]] = {}

    def step(self, node: Node, constants: Mapping[str, np.ndarray] | None = None) -> None:
        """Compute a node, the next one of the graph; at the first node of a loop over time the whole loop is run.

        Args:
            constants: constants that replace some of its inputs, by name.
        """
        if is_delay(node):
            loop = self._loops[node.outputs[0]]
            if delayed_value(node) not in self._ran:
                self._ran |= self.run_loop(loop, sorted(delayed_values(loop.delays)), computed_in_steps)
            self.delay(node, self._ran[delayed_value(node)])
            return
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

    def delay(self, node: Node, states: Sequence[np.ndarray]) -> None:
        """Set the result of a node that delays a state; the state is given for every sample."""
        initial = self.constants[node.inputs[0]]
        for values, state in zip(self.values, states, strict=True):
            values[node.outputs[0]] = delayed(initial, state, node.attributes["axis"])

    def states(self, node: Node) -> list[np.ndarray]:
        """Return what a node delays, for every sample, as the run of its loop gave it."""
        return self._ran[delayed_value(node)]

    def run_loop(
        self,
        loop: TimeLoop,
        wanted: Sequence[str],
        computing: Callable[[Node], ComputeStep],
        replaced: Replace | None = None,
    ) -> dict[str, list[np.ndarray]]:
        """Run a loop over time for all samples; see ``run_loop.run_loop``.

        All samples go through a step together, one behind the other on an axis of length 1, if every node treats the
        entries of that axis alike.
        """
        count, of, along = len(self.values), self.of, 1 - loop.axis
        initial = {node.inputs[0] for node in loop.delays}

        def together(name: str) -> Any:
            if name in initial:
                return np.concatenate([self.constants[name]] * count, along)
            return self.constants[name] if name in self.constants else np.concatenate(of(name), along)

        if count and all(self._is_alike(node, along) for node in loop.nodes):
            whole = run_loop(loop, together, computing, wanted, replaced)
            return {name: np.split(array, count, along) for name, array in whole.items()}
        each = [
            run_loop(loop, lambda name, at=k: of(name)[at], computing, wanted, replaced)  # type: ignore[misc]
            for k in range(count)
        ]
        return {name: [values[name] for values in each] for name in wanted}

    def _is_alike(self, node: Node, along: int) -> bool:
        """Say whether values of a node have three axes, and it treats all entries along one of them alike."""
        facts = facts_of(node)
        constants = [self.constants[name] for name in node.inputs if name in self.constants]
        others = [self.values[0][name] for name in node.inputs if name in self.values[0]]
        if not all(array.ndim == 3 and array.shape[along] == 1 for array in others):
            return False
        if facts.effect is Effect.SUMS:
            return node.op_type == "MatMul" and node.inputs[0] not in self.constants and constants[0].ndim == 2
        if facts.effect in LINEAR_EFFECTS | {Effect.BOUNDS, Effect.BENDS}:
            return all(array.ndim < 2 or (array.ndim == 3 and array.shape[along] == 1) for array in constants)
        return False

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
