"""The frames of a build: what a caller's samples are to the circuit, and what the model itself makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.canonicalize.unbatch import batch_as_frames, frames_of
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model, Value
from onnx_hw.samples.read_samples import frame_count, one_frame, read_samples, stack_outputs


@dataclass(frozen=True)
class InputData:
    """The samples of a caller, as frames by graph input: (frames, *shape of one frame).

    Attributes:
        frames: to prove and to compute with; None where none were given.
        labels: (frames,) their right classes, or None.
        calibration: to learn ranges from; None where none were given.
        learned_labels: (frames,) their right classes, or None.
    """

    frames: Mapping[str, np.ndarray] | None = None
    labels: np.ndarray | None = None
    calibration: Mapping[str, np.ndarray] | None = None
    learned_labels: np.ndarray | None = None


def read_input_data(inputs: Path | None, calibration: Path | None, model: Model) -> InputData:
    """The frames in the files of a caller.

    Args:
        model: as it was read.

    Raises:
        UserError: what is wrong with both files; see ``read_samples``.
    """
    frame, batch = batch_as_frames(model)
    problems: list[Problem] = []

    def read(
        path: Path | None, classes: int | None = None
    ) -> tuple[Mapping[str, np.ndarray] | None, np.ndarray | None]:
        if path is None:
            return None, None
        try:
            found = read_samples(path, model.graph.inputs, frames_of_a_sample=batch, classes=classes)
        except UserError as error:
            problems.extend(error.problems)
            return None, None
        return frames_of(found.arrays, batch), found.labels

    classes = classes_of(frame.graph.outputs)
    frames, labels = read(inputs, classes)
    learned, learned_labels = read(calibration, classes)
    if problems:
        raise UserError(*problems)
    return InputData(frames, labels, learned, learned_labels)


def classes_of(outputs: Sequence[Value]) -> int | None:
    """How many classes the first output of one frame tells apart: one per element; None where that is unknown."""
    if not outputs or outputs[0].shape is None:
        return None
    lengths = [length for length in outputs[0].shape if isinstance(length, int)]
    known = len(lengths) == len(outputs[0].shape) and prod(lengths) > 1  # one element may be the class itself
    return prod(lengths) if known else None


def by_reference(model: Model, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The model's outputs by name, (frames, *shape)."""
    each = [reference.run(model, one_frame(frames, k)) for k in range(frame_count(frames))]
    return stack_outputs(each)
