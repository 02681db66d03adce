"""npz archives, array after array; one that is large stays on disk (``large_array.py``).

What a header claims is believed only as far as bytes follow it.
"""

from __future__ import annotations

import zipfile
from math import prod
from typing import IO

import numpy as np
from numpy.lib import format as npy

from onnx_hw.samples.spooled_array import SpooledArray

PIECE = 1 << 18  # bytes

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""By version of the format; the third is for names of fields."""


def read_npz(file: IO[bytes]) -> tuple[dict[str, np.ndarray], list[str]]:
    """(arrays by name, names of what else is in the archive).

    Raises:
        OSError: it cannot be read, or what is unpacked finds no room.
        ValueError, EOFError, zipfile.BadZipFile, ...: the bytes make no sense, or stand for objects.
    """
    arrays, others = {}, []
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                if member.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
                    others.append(name)
                    continue
                arrays[name.removesuffix(".npy")] = _array(member)
    return arrays, others


def _array(member: IO[bytes]) -> np.ndarray:
    """The array behind the first bytes of its file."""
    version = tuple(member.read(2))
    if version not in HEADERS:
        raise ValueError(f"an array in version {'.'.join(map(str, version))} of the format")
    shape, in_columns, dtype = HEADERS[version](member)
    if dtype.hasobject:
        raise ValueError("Python objects, not numbers")
    missing = prod(shape) * dtype.itemsize
    with SpooledArray() as array:
        while missing > 0:
            piece = member.read(min(missing, PIECE))
            if not piece:
                raise EOFError(f"the header claims {missing:,} bytes more than there are")
            array.add(piece)
            missing -= len(piece)
        member.read(1)  # at its end the archive compares the checksum
        return array.of(dtype, shape, in_columns=in_columns)
