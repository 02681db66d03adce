"""Entries of a store on their way to another one: files and nothing else, checked by digest when they arrive."""

from __future__ import annotations

import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePath

from onnx_hw.runtime.artifact_store import RECORD, Store, read_entry

LARGEST_FILE = 2**31
"""Bytes of a file: what claims to be larger is not unpacked."""


class Damaged(Exception):
    """A parcel does not hold what it says."""


@dataclass(frozen=True)
class Parcel:
    """An entry of a store, at ``stage`` and ``digest``: its files by name, compressed; logs stay where they are."""

    stage: str
    digest: str
    files: dict[str, bytes]

    @property
    def size(self) -> int:
        """Number of bytes that travel."""
        return sum(map(len, self.files.values()))


def pack(store: Store, stage: str, digest: str) -> Parcel:
    """Return an entry of the store; raise ``KeyError`` where the store does not have it."""
    entry = store.find(stage, digest)
    if entry is None:
        raise KeyError(f"{stage}/{digest}")
    return Parcel(
        stage, digest, {name: zlib.compress((entry.folder / name).read_bytes(), 6) for name in (*entry.files, RECORD)}
    )


def unpack(parcel: Parcel, store: Store) -> None:
    """Put an entry into another store.

    Raises:
        Damaged: a file is not what its digest says, or would lie elsewhere.
    """
    with tempfile.TemporaryDirectory(prefix="onnx-hw-") as place:
        folder = Path(place)
        for name, data in parcel.files.items():
            if PurePath(name).name != name or name in ("", ".", ".."):
                raise Damaged(f"{name!r} is no name of a file")
            (folder / name).write_bytes(_decompressed(data))
        if read_entry(folder, parcel.digest) is None:
            raise Damaged(f"{parcel.stage}/{parcel.digest} is not what its digests say")
        store.keep(parcel.stage, parcel.digest, folder)


def _decompressed(data: bytes) -> bytes:
    machine = zlib.decompressobj()
    try:
        text = machine.decompress(data, LARGEST_FILE)
    except zlib.error as error:
        raise Damaged(str(error)) from None
    if machine.unconsumed_tail or not machine.eof:
        raise Damaged("a file is too large, or cut short")
    return text
