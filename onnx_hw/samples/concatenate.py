"""Samples of several files as one array per graph input; what is large stays on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.samples.spooled_array import SpooledArray


class SamplesTogether(ExitStack):
    """The samples of one file behind those of another; a context, which the arrays outlive."""

    def __init__(self, inputs: Sequence[str]) -> None:
        super().__init__()
        self._numbers = {name: self.enter_context(SpooledArray()) for name in inputs}
        self._first: tuple[Path, Mapping[str, np.ndarray]] | None = None
        self._count = 0

    def add(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        """Those of a file, by graph input, (samples, *shape); of all inputs as many.

        Raises:
            UserError: they have another shape than those before, or there is no room for them.
        """
        first, known = self._first = self._first or (path, {name: array[:0] for name, array in arrays.items()})
        for name, array in arrays.items():
            if array.shape[1:] != known[name].shape[1:]:
                wanted, given = (list(of.shape[1:]) for of in (known[name], array))
                message = f"all samples must have one shape, {wanted} as in `{first.name}`, not {given}"
                raise UserError(Problem("samples-shape", message, str(path), stage="samples"))
        try:
            for name, array in arrays.items():
                for sample in array:
                    self._numbers[name].add(sample.tobytes())
        except OSError as error:
            message = f"the samples find no room: {error.strerror or error}"
            raise UserError(Problem("samples-read", message, str(path), stage="samples")) from None
        self._count += len(next(iter(arrays.values()), ()))

    def arrays(self) -> dict[str, np.ndarray]:
        """All of them, by graph input, (samples, *shape); one file at least was added."""
        assert self._first is not None
        _, known = self._first
        return {
            name: numbers.of(known[name].dtype, (self._count, *known[name].shape[1:]))
            for name, numbers in self._numbers.items()
        }
