"""Outputs of a run, and the share of them that is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_hw.messages.errors import user_error


class Outputs(dict[str, Any]):
    """Arrays by graph output, samples on the first axis; lists of maps where an output has a map for each row.

    Attributes:
        labels: right classes, (frames,) integers; None where they did not come with the samples.
    """

    def __init__(self, arrays: Mapping[str, Any], labels: np.ndarray | None = None) -> None:
        super().__init__(arrays)
        self.labels = labels

    def __repr__(self) -> str:
        named = ", ".join(
            f"{name}: {len(array)} maps" if isinstance(array, list) else f"{name}: {array.dtype}{list(array.shape)}"
            for name, array in self.items()
        )
        return f"Outputs({named}{', with labels' if self.labels is not None else ''})"


def holds_maps(array: np.ndarray) -> bool:
    """Return whether an array of objects holds maps from labels to numbers, as ZipMap makes them."""
    return array.dtype == object and array.size > 0 and isinstance(array.reshape(-1)[0], dict)


def numbers_of_maps(array: np.ndarray) -> np.ndarray:
    """Return the numbers of maps, (*shape, labels) float32, in the order of the first map's labels."""
    labels = list(array.reshape(-1)[0])
    numbers = [[entry[label] for label in labels] for entry in array.reshape(-1)]
    return np.array(numbers, np.float32).reshape(*array.shape, len(labels))


def storable(array: np.ndarray) -> np.ndarray:
    """Return an array that an npz file can hold: maps as records with a field for each label, other objects as text."""
    if array.dtype != object:
        return array
    if not holds_maps(array):
        return array.astype(str)
    numbers = numbers_of_maps(array)
    records = np.empty(array.shape, [(str(label), np.float32) for label in array.reshape(-1)[0]])
    for k, field in enumerate(records.dtype.names or ()):
        records[field] = numbers[..., k]
    return records


def answers_of(outputs: Mapping[str, np.ndarray], frames: int) -> np.ndarray:
    """Return the answer for every frame, (frames,) integers: the index of the largest number of the first output that
    holds numbers or maps of numbers.

    An output of one integer is the answer itself, as behind an ArgMax.

    Args:
        outputs: arrays by graph output; an output may have several frames of a batch behind its first axis.

    Raises:
        UserError: all outputs hold texts.
    """
    numeric = (numbers_of_maps(each) if holds_maps(each) else each for each in outputs.values())
    scores = next((each for each in numeric if each.dtype != object), None)
    if scores is None:
        raise user_error(
            "samples-labels",
            f"labels are compared with an output of numbers; {', '.join(f'`{name}`' for name in outputs)} holds texts",
            hint="leave out the labels, or let the model have its scores as an output, too",
            stage="samples",
        )
    scores = scores.reshape(frames, -1)
    return scores[:, 0] if scores.shape[1] == 1 and scores.dtype.kind in "iu" else scores.argmax(axis=1)


def share_right(outputs: Mapping[str, np.ndarray], labels: np.ndarray) -> float:
    """Return the share of frames whose answer, see ``answers_of``, is the label, 0..1; labels are (frames,)."""
    return float((answers_of(outputs, len(labels)) == labels).mean())
