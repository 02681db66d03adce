"""Store of the results of stages by the digest of their inputs, one for all builds of a user.

A stage is a function of its inputs, so an entry with their digest is its result, no matter who made it. An entry is
a folder ``stage/digest``: it is written next to its place, moved there when it is complete, and never changed later.
Build folders hold links to the same files. A changed file is noticed: its own digest is in the entry's record.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_hw.messages.regular_file import require_regular_file
from onnx_hw_tools.user_cache import user_cache

RECORD = "stage.json"
"""In every folder of a stage: its digest, and the SHA-256 of its files but logs."""

VARIABLE = "ONNX_HW_STORE"
MOST_BYTES = 10 * 10**9
"""Size in bytes to which a store is pruned after a build; the entry that was unused for longest goes first."""

_IDENTITY = "identity"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_STAGE = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class StoredResult:
    """The result of a stage in a folder: the digest of its inputs, and the SHA-256 of its files but logs, by name."""

    folder: Path
    digest: str
    files: dict[str, str]


class Store:
    """The folder ``path``, made when something is kept in it. Any number of processes may use it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Store {self.path}"

    @property
    def identity(self) -> str:
        """A word that two processes see alike if, and only if, they share the store."""
        place = self.path / _IDENTITY
        while True:
            try:
                return place.read_text(encoding="ascii")
            except FileNotFoundError:
                self.path.mkdir(parents=True, exist_ok=True)
                fresh = self.path / f".{uuid.uuid4().hex}"
                fresh.write_text(uuid.uuid4().hex, encoding="ascii")
                with suppress(FileExistsError):
                    os.link(fresh, place)  # of several processes one succeeds, and all of them read its word
                fresh.unlink()

    def find(self, stage: str, digest: str) -> StoredResult | None:
        """Return what that stage made of inputs of that digest, if it is here and unchanged."""
        entry = read_entry(self._place(stage, digest), digest)
        if entry is not None:
            with suppress(OSError):
                os.utime(entry.folder / RECORD)
        return entry

    def has(self, stage: str, digest: str) -> bool:
        """Return whether there is an entry; its files are not looked at."""
        return (self._place(stage, digest) / RECORD).is_file()

    def keep(self, stage: str, digest: str, made: Path) -> None:
        """Keep the files of a folder, which has its record; an entry that is there, and unchanged, stays."""
        place = self._place(stage, digest)
        if read_entry(place, digest) is not None:
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".", dir=place.parent))
        try:
            share(made, fresh)
            fresh.chmod(0o755)  # mkdtemp makes folders private
            for _ in range(2):
                with suppress(OSError):
                    os.replace(fresh, place)
                    return
                if read_entry(place, digest) is not None:
                    return  # somebody else was faster, with the same
                with suppress(OSError):
                    _remove(place)  # changed: make room
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def entries(self) -> Iterator[tuple[str, StoredResult]]:
        """Return every stage and entry, the one that was used last at the end; files are not looked at."""
        found = []
        for record in self.path.glob(f"*/*/{RECORD}"):
            with suppress(OSError, ValueError, KeyError):
                files = json.loads(require_regular_file(record).read_text(encoding="utf-8"))["files"]
                found.append((record.stat().st_mtime_ns, record.parent.parent.name, record.parent, files))
        for _, stage, folder, files in sorted(found, key=lambda entry: entry[:2]):
            yield stage, StoredResult(folder, folder.name, files)

    def size(self) -> int:
        """Bytes of all entries; what a build folder shares counts, too."""
        return sum(_bytes(entry.folder) for _, entry in self.entries())

    def prune(self, most: int = MOST_BYTES) -> int:
        """Remove what was not used for longest until at most ``most`` bytes are left; the bytes removed."""
        entries = [(entry.folder, _bytes(entry.folder)) for _, entry in self.entries()]
        left = total = sum(size for _, size in entries)
        for folder, size in entries:
            if left <= most:
                break
            with suppress(OSError):
                _remove(folder)
                left -= size
        return total - left

    def _place(self, stage: str, digest: str) -> Path:
        if not (_STAGE.fullmatch(stage) and _DIGEST.fullmatch(digest)):
            raise ValueError(f"{stage!r} of {digest!r} has no place in a store")
        return self.path / stage / digest


def user_store(given: Path | None = None) -> Store:
    """Return the store at ``given``, or ``$ONNX_HW_STORE``, or in the user's cache."""
    named = os.environ.get(VARIABLE, "")
    return Store(given or (Path(named) if named else user_cache() / "store"))


def read_entry(folder: Path, digest: str | None = None) -> StoredResult | None:
    """Return what lies in a folder, if it has a record (of that digest) and all files are unchanged."""
    try:
        record: dict[str, Any] = json.loads(require_regular_file(folder / RECORD).read_text(encoding="utf-8"))
        found, files = record["digest"], record["files"]
        if (digest is None or digest == found) and digests(folder) == files:
            return StoredResult(folder, found, files)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def write_record(folder: Path, digest: str) -> dict[str, str]:
    """Write down what a folder holds; SHA-256 by name."""
    files = digests(folder)
    (folder / RECORD).write_bytes((json.dumps({"digest": digest, "files": files}, indent=1) + "\n").encode())
    return files


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a folder but logs and its record, by name."""
    files = sorted(file for file in folder.iterdir() if file.name != RECORD and file.suffix != ".log")
    return {file.name: hashlib.sha256(require_regular_file(file).read_bytes()).hexdigest() for file in files}


def share(source: Path, target: Path) -> None:
    """Link the files of one folder into another, read-only from now on; copy them where that is not possible."""
    for file in source.iterdir():
        if file.name == RECORD:  # its time says when it was used here
            shutil.copyfile(file, target / file.name)
            continue
        try:
            os.link(file, target / file.name)
        except OSError:  # another disk, or one without links
            shutil.copyfile(file, target / file.name)
        (target / file.name).chmod(0o444)


def _remove(folder: Path) -> None:
    """Write the whole file or nothing, also for another process that reads at the same time."""
    gone = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        os.replace(folder, gone)
    finally:
        shutil.rmtree(gone, ignore_errors=True)


def _bytes(folder: Path) -> int:
    try:
        return sum(file.stat().st_size for file in folder.iterdir())
    except OSError:
        return 0
