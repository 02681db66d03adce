"""Concatenation of the samples of several files, one array per graph input; large arrays stay on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.samples.spooled_array import SpooledArray


class SampleConcatenation(ExitStack):
    """Samples of one file behind those of another. It is a context manager; the arrays stay valid after its end."""

    def __init__(self, inputs: Sequence[str]) -> None:
        super().__init__()
        self._numbers = {name: self.enter_context(SpooledArray()) for name in inputs}
        self._first: tuple[Path, Mapping[str, np.ndarray]] | None = None
        self._count = 0

    def add(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        """Add the samples of a file.

        Args:
            path: the file, for errors.
            arrays: samples by graph input, (samples, *shape); every input has the same number of them.

        Raises:
            UserError: they have another shape than those before, or the disk is full.
        """
        first, empty = self._first = self._first or (path, {name: array[:0] for name, array in arrays.items()})
        for name, array in arrays.items():
            if array.shape[1:] != empty[name].shape[1:]:
                shape, other = list(empty[name].shape[1:]), list(array.shape[1:])
                message = f"all samples must have one shape, {shape} as in `{first.name}`, not {other}"
                raise UserError(Problem("samples-shape", message, str(path), stage="samples"))
        try:
            for name, array in arrays.items():
                for sample in array:
                    self._numbers[name].add(sample.tobytes())
        except OSError as error:
            message = f"there must be room on disk for the samples: {error.strerror or error}"
            raise UserError(Problem("samples-read", message, str(path), stage="samples")) from None
        self._count += len(next(iter(arrays.values()), ()))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all samples by graph input, (samples, *shape). At least one file must have been added."""
        assert self._first is not None
        _, empty = self._first
        return {
            name: numbers.of(empty[name].dtype, (self._count, *empty[name].shape[1:]))
            for name, numbers in self._numbers.items()
        }
