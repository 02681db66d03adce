"""Samples of a caller, one array per graph input, and the outputs for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import printable, spelled_shape
from onnx_hw.onnx.graph.model import MAX_AXES

SampleSource = Path | Mapping[str, ArrayLike] | ArrayLike
"""Samples of a caller: a file or folder, arrays by graph input, or the array of the only input."""

Note = tuple[str, str]
"""Remark on samples that were converted, and what makes it go away: message and hint of a warning."""


@dataclass(frozen=True)
class Samples:
    """Samples that fit the inputs of a graph.

    Attributes:
        arrays: samples by graph input, (count, *shape of the input), in the input's dtype.
        count: number of samples, at least 1.
        labels: right classes, (count,) integers, or None.
        notes: conversions that were made, each with a hint.
    """

    arrays: Mapping[str, np.ndarray]
    count: int
    labels: np.ndarray | None = None
    notes: tuple[Note, ...] = ()

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Iterate over the samples, each by graph input in the input's own shape."""
        return (one_frame(self.arrays, k) for k in range(self.count))

    def __repr__(self) -> str:
        named = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.arrays.items())
        return f"Samples({self.count}: {printable(named)}{', with labels' if self.labels is not None else ''})"


def frame_count(arrays: Mapping[str, np.ndarray]) -> int:
    """Return the number of samples in arrays by graph input; 1 for a graph without inputs, which runs once."""
    return len(next(iter(arrays.values()))) if arrays else 1


def one_frame(arrays: Mapping[str, np.ndarray], k: int) -> dict[str, np.ndarray]:
    """Return sample ``k`` by graph input, in the input's own shape."""
    return {name: np.asarray(array[k]) for name, array in arrays.items()}


def split_samples(arrays: Mapping[str, np.ndarray], batch: int) -> dict[str, np.ndarray]:
    """Reshape samples of a batch, (samples, batch, *shape), to frames, (samples · batch, 1, *shape)."""
    return {name: array.reshape(-1, 1, *array.shape[2:]) for name, array in arrays.items()} if batch > 1 else {**arrays}


def join_batches(arrays: Mapping[str, np.ndarray], batch: int) -> dict[str, np.ndarray]:
    """Reshape outputs of frames, (samples · batch, 1, *shape), to samples, (samples, batch, *shape)."""
    return (
        {name: array.reshape(-1, batch, *array.shape[2:]) for name, array in arrays.items()}
        if batch > 1
        else {**arrays}
    )


def is_maps(value: Any) -> bool:
    """Return whether a value is a list of maps, as ZipMap makes it."""
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def stack_outputs(results: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Return the outputs of all samples by name, stacked on a new first axis; a list of maps is an array of objects.

    Raises:
        UserError: stage ``samples``; an output is not a tensor, has no axis to spare for numpy's limit, or has
            different shapes for different samples.
    """
    problems: list[Problem] = []
    arrays = {}
    for name in results[0]:
        parts = [np.array(part, object) if is_maps(part) else part for part in (result[name] for result in results)]
        where = f'output "{name}"'
        if not all(isinstance(part, np.ndarray) for part in parts):
            message = f"every output must be a tensor; `{name}` is {type(parts[0]).__name__}"
            problems.append(Problem("samples-output", message, where, stage="samples"))
        elif parts[0].ndim > MAX_AXES:
            message = f"an output must have at most {MAX_AXES} axes, not {parts[0].ndim}"
            problems.append(Problem("samples-output", message, where, stage="samples"))
        elif differing := [part.shape for part in parts if part.shape != parts[0].shape]:
            message = f"an output must have one shape for all samples, not {spelled_shape(parts[0].shape)} and"
            message = f"{message} {spelled_shape(differing[0])}"
            problems.append(Problem("samples-output", message, where, "give one sample at a time", stage="samples"))
        else:
            arrays[name] = np.stack(parts)
    if problems:
        raise UserError(*problems)
    return arrays
