"""Reader of npz archives, array after array; a large array stays on disk (``spooled_array.py``).

Memory is taken for the bytes that follow a header, not for those that it claims.
"""

from __future__ import annotations

import zipfile
from math import prod
from typing import IO

import numpy as np
from numpy.lib import format as npy

from onnx_hw.samples.spooled_array import SpooledArray

MAX_BYTES = 1 << 31
"""Greatest size of all arrays of an archive together: a few bytes of it may stand for any number of zeros."""

CHUNK_BYTES = 1 << 18

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""Readers of an array's header, by version of the format; the third version is for names of fields."""


class TooLarge(Exception):
    """The arrays of an archive are larger than any samples need to be."""


def read_npz(file: IO[bytes]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the arrays by name, and the names of all other files in the archive.

    Raises:
        TooLarge: the arrays have more than ``MAX_BYTES``.
        OSError: the archive cannot be read, or the disk is full.
        ValueError, EOFError, zipfile.BadZipFile, ...: the bytes are not an archive of arrays, or stand for objects.
    """
    arrays, others, total = {}, [], 0
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            with archive.open(entry) as member:
                if member.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
                    others.append(entry.filename)
                    continue
                total += entry.file_size  # no more can be read, whatever the array's own header claims
                if total > MAX_BYTES:
                    allowed = f"the arrays of a file must have at most {MAX_BYTES >> 20:,} MiB together"
                    raise TooLarge(f"{allowed}, not {total >> 20:,}")
                arrays[entry.filename.removesuffix(".npy")] = _array(member)
    return arrays, others


def _array(member: IO[bytes]) -> np.ndarray:
    """Return the array of a file whose first bytes, ``MAGIC_PREFIX``, have been read."""
    version = tuple(member.read(2))
    if version not in HEADERS:
        raise ValueError(f"an array in version {'.'.join(map(str, version))} of the format")
    shape, in_columns, dtype = HEADERS[version](member)
    if dtype.hasobject:
        raise ValueError("Python objects, not numbers")
    missing = prod(shape) * dtype.itemsize
    with SpooledArray() as array:
        while missing > 0:
            piece = member.read(min(missing, CHUNK_BYTES))
            if not piece:
                raise EOFError(f"the header claims {missing:,} bytes more than there are")
            array.add(piece)
            missing -= len(piece)
        member.read(1)  # at its end, zipfile compares the checksum
        return array.of(dtype, shape, in_columns=in_columns)
