"""The frames of a build: what a caller's samples are to the circuit, and what the model itself makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from onnx_hw import golden, samples, simulate
from onnx_hw.network import Network
from onnx_hw.onnx import reference
from onnx_hw.onnx.model import Model, Value
from onnx_hw.quantize.batch_as_frames import frames_of


def read_frames(
    path: Path, inputs: Sequence[Value], batch: int, classes: int | None = None
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """The frames of a file by graph input, (frames, *shape of one frame), and their labels.

    Args:
        inputs: of the model as it was read.
        batch: frames of a sample.
        classes: that labels may name; None where that is unknown.

    Raises:
        UserError: as ``read_samples``.
    """
    given = samples.read_samples(path, inputs, frames_of_a_sample=batch, classes=classes)
    return frames_of(given.arrays, batch), given.labels


def classes_of(outputs: Sequence[Value]) -> int | None:
    """How many classes the first output of one frame tells apart: one per element; None where that is unknown."""
    if not outputs or outputs[0].shape is None:
        return None
    lengths = [length for length in outputs[0].shape if isinstance(length, int)]
    known = len(lengths) == len(outputs[0].shape) and prod(lengths) > 1  # one element may be the class itself
    return prod(lengths) if known else None


def streamed_in(network: Network, frames: Mapping[str, np.ndarray] | None) -> Mapping[str, np.ndarray]:
    """What the host streams in, by hardware input tensor: the frames, or random integers where there are none."""
    if frames is None:
        return simulate.random_integers(network)
    integers = golden.integers_of(network, frames)
    few = max(0, 2 - len(next(iter(integers.values()))))  # two frames at least: state must not leak
    return {tensor: np.concatenate([array] + [array[:1]] * few) for tensor, array in integers.items()}


def by_reference(model: Model, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The model's outputs by name, (frames, *shape)."""
    each = [reference.run(model, samples.one_frame(frames, k)) for k in range(samples.frame_count(frames))]
    return samples.stack_outputs(each)
