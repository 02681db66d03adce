"""An array that comes piece by piece: in memory while it is small, else in a temporary file, and mapped.

Samples may take more room than the memory has; who computes with one after the other touches few at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from mmap import ACCESS_READ, mmap
from tempfile import SpooledTemporaryFile
from types import TracebackType

import numpy as np

HELD = 1 << 26
"""Bytes of an array that are held in memory."""


class SpooledArray:
    """The bytes of an array, one piece after the other; a context, which the array outlives."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=HELD)  # noqa: SIM115 (closed by ``__exit__``)
        self._size = 0

    def __enter__(self) -> SpooledArray:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, piece: bytes) -> None:
        """More of it.

        Raises:
            OSError: there is no room for it.
        """
        self._size += self._file.write(piece)

    def of(self, dtype: np.dtype, shape: Sequence[int], *, in_columns: bool = False) -> np.ndarray:
        """All that was added, to be read only.

        Args:
            in_columns: the first axis runs fastest.

        Raises:
            ValueError: it is not as many bytes.
        """
        self._file.seek(0)  # which writes what is not yet written
        held = self._size <= HELD
        numbers = np.frombuffer(self._file.read() if held else mmap(self._file.fileno(), 0, access=ACCESS_READ), dtype)
        return numbers.reshape(tuple(shape), order="F" if in_columns else "C")
