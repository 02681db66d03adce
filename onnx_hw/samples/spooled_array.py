"""Array that arrives piece by piece: in memory while it is small, else in a temporary file that is mapped.

Samples may be larger than the memory; a run that computes with one after the other touches few at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from mmap import ACCESS_READ, mmap
from tempfile import SpooledTemporaryFile

import numpy as np

MAX_BYTES_IN_MEMORY = 1 << 26
"""Size up to which an array is held in memory."""


class SpooledArray:
    """Buffer for the bytes of an array. It is a context manager; the array stays valid after its end."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=MAX_BYTES_IN_MEMORY)  # noqa: SIM115 (closed by ``__exit__``)
        self._size = 0

    def __enter__(self) -> SpooledArray:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def add(self, piece: bytes) -> None:
        """Append bytes; raise ``OSError`` where the disk is full."""
        self._size += self._file.write(piece)

    def of(self, dtype: np.dtype, shape: Sequence[int], *, in_columns: bool = False) -> np.ndarray:
        """Return the array of all bytes that were added, read-only.

        Args:
            dtype, shape: type and shape of the array.
            in_columns: whether the first axis runs fastest.

        Raises:
            ValueError: shape and type need another number of bytes.
        """
        self._file.seek(0)  # flushes
        in_memory = self._size <= MAX_BYTES_IN_MEMORY
        numbers = np.frombuffer(
            self._file.read() if in_memory else mmap(self._file.fileno(), 0, access=ACCESS_READ), dtype
        )
        return numbers.reshape(tuple(shape), order="F" if in_columns else "C")
