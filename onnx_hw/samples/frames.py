"""Frames of a build: the samples of a caller as the circuit takes them, and the model's own outputs for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.canonicalize.unbatch import ReadModel
from onnx_hw.onnx.graph.model import Model, Value
from onnx_hw.runtime.options import Resize
from onnx_hw.samples.check_samples import check_samples
from onnx_hw.samples.read_samples import read_samples
from onnx_hw.samples.samples import Note, Samples, SampleSource, split_samples, stack_outputs
from onnx_hw.samples.sequences import in_sequence
from onnx_hw.samples.single_input_files import WITHOUT_IMAGES


@dataclass(frozen=True)
class InputData:
    """Samples of a caller as frames by graph input, (frames, *shape of one frame).

    Attributes:
        frames: frames to prove and to compute with; None where the caller gave none.
        labels: right classes of ``frames``, (frames,) integers, or None.
        calibration: frames that show the ranges of a float model; None where the caller gave none.
        calibration_labels: right classes of ``calibration``, (frames,) integers, or None.
        notes: conversions of what the caller gave, each with a hint.
    """

    frames: Mapping[str, np.ndarray] | None = None
    labels: np.ndarray | None = None
    calibration: Mapping[str, np.ndarray] | None = None
    calibration_labels: np.ndarray | None = None
    notes: tuple[Note, ...] = ()


WITHOUT_CLASSES: Note = (
    "the labels are left out: the model is cut at values that are no scores of its classes",
    "cut it at the scores, to compare them with labels",
)
"""Note that a part of a model has labels, and no output to compare with them."""


@dataclass(frozen=True)
class SampleTypes:
    """Facts of a model that samples are checked against.

    Attributes:
        inputs: inputs of the model as written.
        batch: number of frames in a sample of the model as written.
        classes: number of classes of the first output; None where it is unknown, 0 where it has none.
    """

    inputs: tuple[Value, ...]
    batch: int = 1
    classes: int | None = None

    @classmethod
    def of(cls, model: ReadModel) -> SampleTypes:
        """Return the facts of a model."""
        return cls(model.frame_inputs, model.frame.batch, classes_of(model.frame.model))

    def samples(self, given: SampleSource, source: str, resize: Resize | None = None) -> Samples:
        """Return the samples of a file, a folder or arrays.

        Args:
            source: name of arrays in errors.
            resize: how images in files get the input's size; None for what ``samples.toml`` says.

        Raises:
            UserError: they do not fit; see ``check_samples`` and ``read_samples``.
        """
        classes = self.classes or None
        if isinstance(given, Path):
            samples = read_samples(given, self.inputs, frames_of_a_sample=self.batch, classes=classes, resize=resize)
        else:
            samples = check_samples(given, self.inputs, frames_of_a_sample=self.batch, classes=classes, source=source)
            if resize is not None:
                samples = replace(samples, notes=(*samples.notes, WITHOUT_IMAGES))
        if samples.labels is None or self.classes != 0:
            return samples
        return replace(samples, labels=None, notes=(*samples.notes, WITHOUT_CLASSES))

    def frames(self, samples: Samples) -> dict[str, np.ndarray]:
        """Return samples as frames by graph input, (frames, *shape of one frame)."""
        return split_samples(samples.arrays, self.batch)


def input_data(
    inputs: SampleSource | None, calibration: SampleSource | None, model: ReadModel, resize: Resize | None = None
) -> InputData:
    """Return the frames that a caller gives, in files or as arrays, checked against the inputs of the model.

    ::

        given = input_data({"image": x_test, "labels": y_test}, x_train[:200], flow.read("model.onnx"))

    Args:
        inputs: samples to prove and to compute with; None for none.
        calibration: samples for calibration; None for none.
        model: the model as it was read.
        resize: how images in files get the input's size; None for what ``samples.toml`` says.

    Raises:
        UserError: all faults of both; see ``check_samples``, and ``read_samples`` for files.
    """
    types = SampleTypes.of(model)
    problems: list[Problem] = []

    def checked(given: SampleSource | None, source: str) -> Samples | None:
        try:
            return None if given is None else types.samples(given, source, resize)
        except UserError as error:
            problems.extend(error.problems)
            return None

    of_inputs, of_calibration = checked(inputs, "inputs"), checked(calibration, "calibration")
    if problems:
        raise UserError(*problems)
    return InputData(
        None if of_inputs is None else split_samples(of_inputs.arrays, types.batch),
        None if of_inputs is None else of_inputs.labels,
        None if of_calibration is None else split_samples(of_calibration.arrays, types.batch),
        None if of_calibration is None else of_calibration.labels,
        _notes([samples for samples in (of_inputs, of_calibration) if samples is not None]),
    )


def _notes(sources: Sequence[Samples]) -> tuple[Note, ...]:
    """Return the notes of all sources, once each; images in one of them are reason enough to resize."""
    notes = dict.fromkeys(note for samples in sources for note in samples.notes)
    if not all(WITHOUT_IMAGES in samples.notes for samples in sources):
        notes.pop(WITHOUT_IMAGES, None)
    return tuple(notes)


def classes_of(model: Model) -> int | None:
    """Return the number of classes of the first output of one frame, one per element; None where it is unknown.

    A part of a model has none (0) if no output of the whole model with several elements has as many as its first one.
    """
    classes = _elements(model.graph.outputs[0].shape) if model.graph.outputs else 0
    shapes = [value.shape for value in model.uncut_outputs if value.shape is not None]
    scores = {size for shape in shapes for size in (_elements(shape), _elements(shape[1:]))} - {0, 1}  # with a batch
    if scores and classes not in scores:
        return 0
    return classes if classes > 1 else None  # one element may be the class itself


def _elements(shape: Sequence[int | str | None] | None) -> int:
    """Return the number of elements of a tensor; 0 where it is unknown."""
    return 0 if shape is None else prod(length if isinstance(length, int) else 0 for length in shape)


def by_reference(model: Model, frames: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the model's outputs by name, (frames, *shape), as the reference computes them; states are carried on."""
    return stack_outputs([outputs for _, outputs in in_sequence(model, frames)])
