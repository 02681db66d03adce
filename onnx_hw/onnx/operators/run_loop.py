"""Run of a loop over time, one step after the other, on slices of whole values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.loops import TimeLoop, delayed_value
from onnx_hw.onnx.graph.model import Node

ComputeStep = Callable[[Sequence[Any]], Sequence[Any]]
"""Function (inputs) -> outputs of one node, for one step."""

Replace = Callable[[str, Any, int], Any]
"""Function (name, value of one step, number of the step) -> value that the readers of the name get instead."""


def delayed(initial: np.ndarray, value: np.ndarray, axis: int) -> np.ndarray:
    """Return a value one step later along an axis: the initial one, and all but the last."""
    kept = np.take(value, range(value.shape[axis] - 1), axis)
    shape = (*kept.shape[:axis], 1, *kept.shape[axis + 1 :])
    return np.concatenate([np.broadcast_to(initial, shape).astype(value.dtype), kept], axis)


def run_loop(
    loop: TimeLoop,
    values: Callable[[str], Any],
    computing: Callable[[Node], ComputeStep],
    wanted: Sequence[str],
    replaced: Replace | None = None,
) -> dict[str, np.ndarray]:
    """Run a loop over all its steps.

    A value from outside that has the steps on the axis of time, and as many axes as the states, is read step by step;
    any other one is the same in every step.

    Args:
        values: function that returns a value from outside the loop, or a constant, by name.
        computing: function that returns, for a node of the loop, the function that computes its outputs in a step.
        wanted: names of the values to return: results of the loop's nodes.
        replaced: function that replaces what the readers of a value get; ``wanted`` values are those, too.

    Returns:
        by name, the values of all steps.
    """
    axis, steps = loop.axis, loop.steps
    initial = {node.outputs[0]: np.asarray(values(node.inputs[0])) for node in loop.delays}
    own = {*loop.results, *initial}
    rank = next(iter(initial.values())).ndim
    whole: dict[str, Any] = {}
    by_step: dict[str, np.ndarray] = {}
    for name in dict.fromkeys(name for node in loop.nodes for name in node.inputs if name and name not in own):
        value = values(name)
        varies = isinstance(value, np.ndarray) and value.ndim == rank and value.shape[axis] == steps
        (by_step if varies else whole)[name] = value
    parts: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    states = initial
    computed = [(node, computing(node)) for node in loop.nodes]
    for step in range(steps):
        known = {**whole, **{name: np.take(value, [step], axis) for name, value in by_step.items()}, **states}
        for node, compute in computed:
            results = compute([known[name] if name else None for name in node.inputs])
            for name, result in zip(node.outputs, results, strict=True):
                known[name] = result if replaced is None else replaced(name, result, step)
        states = {node.outputs[0]: known[delayed_value(node)] for node in loop.delays}
        for name, taken in parts.items():
            taken.append(known[name])
    return {name: np.concatenate(taken, axis) for name, taken in parts.items()}
