"""Large raw data of initializers, kept apart from the message, so that a weight is in memory once.

A protobuf message copies the bytes that it is parsed from, and its ``raw_data`` has to be copied again to be read. Of a
large file, the raw data of the graph's initializers are therefore read for themselves, and the parser gets the rest.
The wire format is that of https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np

MIN_FILE_BYTES = 1 << 24
"""Least size of a file whose raw data are kept apart."""

MIN_DATA_BYTES = 1 << 12
"""Least size of raw data that are kept apart; smaller ones stay in the message."""

MIN_MAPPED_BYTES = 1 << 29
"""Least size of a file whose raw data are mapped into memory instead of read: its weights fit no chip, so that hardly
any of them are used. A smaller file is read, since one that is written again while it is mapped would end the program.
"""

MAX_VARINT_BYTES = 10

GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9
"""Field numbers: of ``ModelProto.graph``, ``GraphProto.initializer`` and ``TensorProto.raw_data``."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
"""Wire types."""


class NotSplit(Exception):
    """Reason to give the parser all bytes: they are not a message, or one of a rare form."""


@dataclass(frozen=True)
class SplitFile:
    """Content of a file.

    Attributes:
        message: bytes of the ``ModelProto`` without the data that are kept apart.
        raw_data: raw data by the position of the initializer in the graph.
    """

    message: bytes
    raw_data: Mapping[int, bytes | memoryview] = field(repr=False)


def split_file(file: BinaryIO, size: int) -> SplitFile:
    """Read a file of ``size`` bytes; keep the large raw data of the graph's initializers apart.

    Raises:
        NotSplit: there is nothing to gain, or the bytes are not those of a plain message.
        OSError: the file cannot be read.
    """
    if size < MIN_FILE_BYTES:
        raise NotSplit
    reader = _Reader(file, _mapped(file) if size >= MIN_MAPPED_BYTES else None)
    message = reader.message(size, {GRAPH: reader.graph})
    if not reader.raw_data:
        raise NotSplit
    return SplitFile(message, reader.raw_data)


def drop_pages(array: np.ndarray) -> None:
    """Take the pages of a mapped file out of memory, if ``array`` is a view of one; they are read again when needed."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    mapped = owner.obj if isinstance(owner, memoryview) else None
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        mapped.madvise(mmap.MADV_DONTNEED)


def _mapped(file: BinaryIO) -> memoryview | None:
    """Return the bytes of a file, mapped into memory; None for one that has no descriptor."""
    try:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (io.UnsupportedOperation, OSError, ValueError):
        return None


class _Reader:
    """Reader of one file; copies the fields of messages and leaves large raw data out."""

    def __init__(self, file: BinaryIO, mapped: memoryview | None) -> None:
        self.file = file
        self.mapped = mapped
        self.initializers = 0
        self.raw_data: dict[int, bytes | memoryview] = {}

    def graph(self, size: int) -> bytes:
        return self.message(size, {INITIALIZER: self.initializer})

    def initializer(self, size: int) -> bytes:
        place = self.initializers
        self.initializers += 1
        raw = list[bytes | memoryview]()

        def keep_apart(length: int) -> bytes | None:
            if length < MIN_DATA_BYTES or raw:
                raise NotSplit
            raw.append(self._data(length))
            return None

        if size < MIN_DATA_BYTES:
            return self._read(size)
        start = self.file.tell()
        try:
            rest = self.message(size, {RAW_DATA: keep_apart})
        except NotSplit:
            self.file.seek(start)
            return self._read(size)
        if raw:
            self.raw_data[place] = raw[0]
        return rest

    def message(self, size: int, readers: Mapping[int, Callable[[int], bytes | None]]) -> bytes:
        """Copy a message of ``size`` bytes; fields with a reader become what that returns, or nothing for None."""
        return b"".join(self._fields(size, readers))

    def _fields(self, size: int, readers: Mapping[int, Callable[[int], bytes | None]]) -> Iterator[bytes]:
        end = self.file.tell() + size
        while self.file.tell() < end:
            tag, spelled = self._varint()
            number, wire = tag >> 3, tag & 7
            if wire == _VARINT:
                yield spelled + self._varint()[1]
            elif wire in (_FIXED64, _FIXED32):
                yield spelled + self._read(8 if wire == _FIXED64 else 4)
            elif wire == _LENGTH:
                length, spelled_length = self._varint()
                if self.file.tell() + length > end:
                    raise NotSplit
                if number not in readers:
                    yield spelled + spelled_length + self._read(length)
                    continue
                content = readers[number](length)
                if content is not None:
                    yield spelled + _varint_bytes(len(content)) + content
            else:  # groups, which ONNX does not have
                raise NotSplit
        if self.file.tell() != end:
            raise NotSplit

    def _varint(self) -> tuple[int, bytes]:
        """Return a number and its bytes."""
        number, spelled = 0, b""
        while len(spelled) < MAX_VARINT_BYTES:
            byte = self._read(1)
            number |= (byte[0] & 0x7F) << 7 * len(spelled)
            spelled += byte
            if byte[0] < 0x80:
                return number, spelled
        raise NotSplit

    def _data(self, size: int) -> bytes | memoryview:
        """Return raw data: a view of the file, if that is mapped, else a copy."""
        if self.mapped is None:
            return self._read(size)
        start = self.file.tell()
        self.file.seek(size, io.SEEK_CUR)
        return self.mapped[start : start + size]

    def _read(self, size: int) -> bytes:
        content = self.file.read(size)
        if len(content) != size:
            raise NotSplit
        return content


def _varint_bytes(number: int) -> bytes:
    spelled = bytearray()
    while number >= 0x80:
        spelled.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*spelled, number))
