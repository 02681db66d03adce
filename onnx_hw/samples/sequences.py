"""Frames as a sequence: a model with states gets in each frame what it has left in the frame before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model
from onnx_hw.samples.samples import frame_count, one_frame


def in_sequence(model: Model, frames: Mapping[str, np.ndarray]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Run a model on frames in their order; yield what went in and what came out, by name, for each of them.

    Args:
        model: model; its states begin with their first value.
        frames: by graph input that is no state, (frames, *shape).
    """
    states = first_states(model)
    for k in range(frame_count(frames)):
        given = one_frame(frames, k) | states
        outputs = reference.run(model, given)
        states = {pair.input: outputs[pair.output] for pair in model.states}
        yield given, outputs


def first_states(model: Model) -> dict[str, np.ndarray]:
    """Return the states before the first frame, by graph input."""
    states: dict[str, np.ndarray] = {}
    values = {value.name: value for value in model.graph.inputs}
    for pair in model.states:
        value = values[pair.input]
        shape = tuple(length for length in value.shape or () if isinstance(length, int))
        states[pair.input] = np.full(shape, pair.first, BY_NAME[value.element_type].dtype)
    return states


def with_states(model: Model, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return frames with the states that a model has in each of them, by graph input, (frames, *shape).

    States among the frames are replaced.
    """
    if not model.states:
        return dict(frames)
    kept = {pair.input for pair in model.states}
    plain = {name: array for name, array in frames.items() if name not in kept}
    each = [given for given, _ in in_sequence(model, plain)]
    return plain | {name: np.stack([given[name] for given in each]) for name in kept}
