"""Section of the report about labelled samples: accuracies, confusions, and the samples that the integers lose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from onnx_hw.messages.html import render_value
from onnx_hw.report.sample_picture import sample_pictures
from onnx_hw.samples.outputs import answers_of, share_right

MAX_CLASSES = 64
"""Number of classes of the largest confusion matrix; a larger one is left out."""

MAX_LOST = 12
"""Number of lost samples that are described."""


@dataclass(frozen=True)
class ClassAccuracy:
    """Accuracy of the samples of one class."""

    label: Annotated[int, "the right class"]
    samples: Annotated[int, "number of its samples"]
    reference: Annotated[float, "share of them that the ONNX model gets right, 0..1"]
    golden: Annotated[float, "share of them that the integer network gets right, 0..1"]


@dataclass(frozen=True)
class LostSample:
    """Sample that the ONNX model gets right and the integer network wrong."""

    number: Annotated[int, "position among the samples, from 0"]
    label: Annotated[int, "the right class, which is the model's answer"]
    golden: Annotated[int, "answer of the integer network"]
    picture: Annotated[str, "the input as PNG in base64, at most 64 pixels wide; empty where it is no image"]


@dataclass(frozen=True, repr=False)
class Accuracy:
    """Share of labelled samples for which the largest output is the right class, 0..1."""

    samples: Annotated[int, "labelled samples given with --inputs"]
    reference: Annotated[float, "the ONNX model, computed as ONNX defines it"]
    golden: Annotated[float, "the integer network"]
    circuit: Annotated[float | None, "the simulated circuit"] = None
    circuit_samples: Annotated[int, "number of samples that went through the circuit, the first ones"] = 0
    golden_of_circuit_samples: Annotated[float | None, "the integer network on those samples"] = None
    classes: Annotated[tuple[ClassAccuracy, ...], "accuracy of every class that has samples"] = ()
    confusion: Annotated[
        tuple[tuple[int, ...], ...],
        "number of samples by right class (row) and answer of the integer network (column), from class 0; empty for "
        "more than 64 classes",
    ] = ()
    lost_samples: Annotated[int, "samples that the model gets right and the integer network wrong"] = 0
    won_samples: Annotated[int, "samples that the integer network gets right and the model wrong"] = 0
    lost: Annotated[tuple[LostSample, ...], "the first twelve lost samples"] = ()

    def _facts(self) -> dict[str, str]:
        facts = {"integers": f"{self.golden:.2%}", "model": f"{self.reference:.2%}"}
        if self.circuit is not None:
            facts["circuit"] = f"{self.circuit:.2%} of the first {self.circuit_samples:,}"
        return {**facts, "lost": f"{self.lost_samples:,}", "won": f"{self.won_samples:,}"}

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"Accuracy of {self.samples:,} samples: {facts}"

    def _repr_html_(self) -> str:
        rows = [(of.label, f"{of.samples:,}", f"{of.golden:.2%}", f"{of.reference:.2%}") for of in self.classes]
        columns = ("class", "samples", "integers", "model")
        return render_value(f"Accuracy of {self.samples:,} samples", self._facts(), "Classes", columns, rows)

    @property
    def circuit_in_words(self) -> str:
        """Share that the circuit gets right, next to golden's on the same samples; empty if nothing was simulated."""
        count, golden = self.circuit_samples, self.golden_of_circuit_samples
        if self.circuit is None:
            return ""
        if golden is None or golden != self.circuit:
            of_golden = "" if golden is None else f", golden {golden:.2%}"
            return f"on the {count:,} simulated: circuit {self.circuit:.2%}{of_golden}"
        if count == self.samples:
            return "circuit equal to golden"
        return f"on the {count:,} simulated golden and circuit are equal, {golden:.2%}"


def describe_accuracy(
    frames: Mapping[str, np.ndarray],
    labels: np.ndarray,
    reference: Mapping[str, np.ndarray],
    golden: Mapping[str, np.ndarray],
    circuit: Mapping[str, np.ndarray],
) -> Accuracy:
    """Return the section; the circuit may have been given fewer samples.

    Args:
        frames: samples by graph input, (frames, *shape).
        labels: right classes, (frames,) integers.
        reference, golden, circuit: outputs by name, (frames, *shape).
    """
    count, labels = len(next(iter(circuit.values()))), labels.astype(np.int64)
    right, answers = answers_of(reference, len(labels)) == labels, answers_of(golden, len(labels)).astype(np.int64)
    golden_right = answers == labels
    lost = np.flatnonzero(right & ~golden_right)
    described = lost[:MAX_LOST]
    pictures = sample_pictures(frames, described)
    return Accuracy(
        len(labels),
        float(right.mean()),
        float(golden_right.mean()),
        share_right(circuit, labels[:count]),
        count,
        float(golden_right[:count].mean()),
        tuple(
            ClassAccuracy(int(label), int(own.sum()), float(right[own].mean()), float(golden_right[own].mean()))
            for label in np.unique(labels)
            for own in (labels == label,)
        ),
        _confusion(labels, answers),
        len(lost),
        int((golden_right & ~right).sum()),
        tuple(
            LostSample(int(number), int(labels[number]), int(answers[number]), picture)
            for number, picture in zip(described, pictures, strict=True)
        ),
    )


def _confusion(labels: np.ndarray, answers: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Return the counts by label and answer; empty where there are too many classes, or negative ones."""
    least, classes = min(int(labels.min()), int(answers.min())), 1 + max(int(labels.max()), int(answers.max()))
    if least < 0 or classes > MAX_CLASSES:
        return ()
    counts = np.bincount(labels * classes + answers, minlength=classes * classes).reshape(classes, classes)
    return tuple(map(tuple, counts.tolist()))
