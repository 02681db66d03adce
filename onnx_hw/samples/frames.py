"""Frames of a build: the samples of a caller as the circuit takes them, and the model's own outputs for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.canonicalize.unbatch import ReadModel, split_samples
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model, Value
from onnx_hw.samples.read_samples import frame_count, one_frame, read_samples, stack_outputs


@dataclass(frozen=True)
class InputData:
    """Samples of a caller as frames by graph input, (frames, *shape of one frame).

    Attributes:
        frames: frames to prove and to compute with; None where the caller gave none.
        labels: right classes of ``frames``, (frames,) integers, or None.
        calibration: frames that show the ranges of a float model; None where the caller gave none.
        calibration_labels: right classes of ``calibration``, (frames,) integers, or None.
    """

    frames: Mapping[str, np.ndarray] | None = None
    labels: np.ndarray | None = None
    calibration: Mapping[str, np.ndarray] | None = None
    calibration_labels: np.ndarray | None = None


def read_input_data(inputs: Path | None, calibration: Path | None, model: ReadModel) -> InputData:
    """Read the frames in the files of a caller.

    Args:
        inputs: file of samples to prove with; None for none.
        calibration: file of samples for calibration; None for none.
        model: the model as it was read.

    Raises:
        UserError: all faults of both files; see ``read_samples``.
    """
    batch = model.frame.batch
    problems: list[Problem] = []

    def read(
        path: Path | None, classes: int | None = None
    ) -> tuple[Mapping[str, np.ndarray] | None, np.ndarray | None]:
        if path is None:
            return None, None
        try:
            samples = read_samples(path, model.graph.inputs, frames_of_a_sample=batch, classes=classes)
        except UserError as error:
            problems.extend(error.problems)
            return None, None
        return split_samples(samples.arrays, batch), samples.labels

    classes = classes_of(model.frame.model.graph.outputs)
    frames, labels = read(inputs, classes)
    calibration_frames, calibration_labels = read(calibration, classes)
    if problems:
        raise UserError(*problems)
    return InputData(frames, labels, calibration_frames, calibration_labels)


def classes_of(outputs: Sequence[Value]) -> int | None:
    """Return the number of classes of the first output of one frame, one per element; None where it is unknown."""
    if not outputs or outputs[0].shape is None:
        return None
    lengths = [length for length in outputs[0].shape if isinstance(length, int)]
    known = len(lengths) == len(outputs[0].shape) and prod(lengths) > 1  # one element may be the class itself
    return prod(lengths) if known else None


def by_reference(model: Model, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the model's outputs by name, (frames, *shape), as the reference computes them."""
    each = [reference.run(model, one_frame(frames, k)) for k in range(frame_count(frames))]
    return stack_outputs(each)
