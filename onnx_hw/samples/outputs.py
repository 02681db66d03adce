"""Outputs of a run, and the share of them that is right."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class Outputs(dict[str, np.ndarray]):
    """Arrays by graph output, samples on the first axis.

    Attributes:
        labels: right classes, (frames,) integers; None where they did not come with the samples.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], labels: np.ndarray | None = None) -> None:
        super().__init__(arrays)
        self.labels = labels

    def __repr__(self) -> str:
        named = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.items())
        return f"Outputs({named}{', with labels' if self.labels is not None else ''})"


def answers_of(outputs: Mapping[str, np.ndarray], frames: int) -> np.ndarray:
    """Return the answer for every frame, (frames,) integers: the index of the largest number of the first output.

    An output of one integer is the answer itself, as behind an ArgMax.

    Args:
        outputs: arrays by graph output; an output may have several frames of a batch behind its first axis.
        frames: number of frames.
    """
    scores = next(iter(outputs.values())).reshape(frames, -1)
    return scores[:, 0] if scores.shape[1] == 1 and scores.dtype.kind in "iu" else scores.argmax(axis=1)


def share_right(outputs: Mapping[str, np.ndarray], labels: np.ndarray) -> float:
    """Return the share of frames whose answer, see ``answers_of``, is the label, 0..1; labels are (frames,)."""
    return float((answers_of(outputs, len(labels)) == labels).mean())
