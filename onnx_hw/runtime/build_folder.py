"""The folder of a build: every stage's files, made once for the same inputs.

A stage is a function of its inputs, so their digest names its result: where the digest in the folder is the same, or
the user's store has a result of that name, the stage is *cached*. Files are made in a temporary folder and moved into
place when all of them are complete; an interrupted build leaves nothing half done. Two builds in one folder wait for
each other, in different folders they share the store alone.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.runtime.artifact_store import Store, StoredResult, read_entry, share, write_record
from onnx_hw_tools.process import ToolFailed
from onnx_hw_tools.user_cache import exclusively

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG})


def digest(inputs: Any) -> str:
    """Return the name of inputs: SHA-256 of their JSON text."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


@dataclass(frozen=True)
class Made:
    """The result of a stage.

    Attributes:
        folder: where its files are.
        digest: of its inputs.
        cached: it was there already.
        files: SHA-256 of every file but logs, by name.
    """

    folder: Path
    digest: str
    cached: bool
    files: dict[str, str]


class BuildFolder:
    """The folder ``path``, created if need be; use it inside ``with opened(path)``.

    Attributes:
        path: its place.
        store: where results are looked for and kept, for other folders too; None for this one's alone.
    """

    def __init__(self, path: Path, store: Store | None = None) -> None:
        self.path, self.store = path, store

    def stage(self, name: str, inputs: Any, make: Callable[[Path], None]) -> Made:
        """Return the files of the stage ``name`` in the folder of that name.

        Args:
            inputs: everything the result depends on, versions of tools included; anything JSON can write.
            make: writes the files into an empty folder. Names ending in ``.log`` need not be reproducible.

        Raises:
            ToolFailed: from ``make``; the files so far, the log among them, are kept in ``<name>-failed``.
            UserError: the folder cannot be written.
        """
        wanted, place = digest(inputs), self.path / name
        found = read_entry(place, wanted) or self._taken(name, wanted)
        if found is not None:
            return Made(place, wanted, True, found.files)
        with _writing(self.path):
            fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.path))
        try:
            with _writing(self.path, only=_NO_ROOM):
                make(fresh)
            with _writing(self.path):
                files = write_record(fresh, wanted)
                _replace(fresh, place)
        except ToolFailed as failure:
            kept = self.path / f"{name}-failed"
            _replace(fresh, kept)
            log = failure.log  # of a first run, it is in the user's cache
            if log.is_relative_to(fresh):
                log = kept / log.relative_to(fresh)
            raise ToolFailed(failure.tool, failure.reason, log, failure.last_lines) from None
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(self.path / f"{name}-failed", ignore_errors=True)
        if self.store is not None:
            with suppress(OSError):  # a full disk is no reason to stop: the result is here
                self.store.keep(name, wanted, place)
        return Made(place, wanted, False, files)

    def take(self, name: str, digest: str) -> Made:
        """Return the stored result of a stage, in the folder of that name; raise ``KeyError`` without one."""
        found = self._taken(name, digest)
        if found is None:
            raise KeyError(f"{name}/{digest}")
        return Made(found.folder, digest, True, found.files)

    def _taken(self, name: str, digest: str) -> StoredResult | None:
        """Return the store's entry, with its files here, too."""
        entry = None if self.store is None else self.store.find(name, digest)
        if entry is None:
            return None
        with _writing(self.path):
            fresh, place = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=self.path)), self.path / name
            try:
                share(entry.folder, fresh)
                _replace(fresh, place)
            except FileNotFoundError:  # somebody has pruned the store this very moment
                return None
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
        return replace(entry, folder=place)

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the folder, whole or not at all: an earlier one stays what it was. Texts become UTF-8.

        Raises:
            UserError: the folder cannot be written.
        """
        fresh, place = self.path / f".{name}.new", self.path / name
        try:
            fresh.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
            os.replace(fresh, place)
        except OSError as error:
            raise cannot_write(place, error) from error
        finally:
            with suppress(OSError):
                fresh.unlink()


@contextmanager
def opened(path: Path, on_wait: Callable[[], None] = lambda: None, store: Store | None = None) -> Iterator[BuildFolder]:
    """Open the build folder ``path`` for this process alone.

    Args:
        store: see ``BuildFolder``.
        on_wait: called when another build works in this folder, before waiting for it.

    Raises:
        UserError: it cannot be created or written.
    """
    with ExitStack() as held:
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)
            place = path.resolve()
            held.enter_context(exclusively(place / ".lock", on_wait))
        yield BuildFolder(place, store)


def _replace(fresh: Path, place: Path) -> None:
    """Move a folder over another one. A folder that is not empty cannot be replaced in one step, hence the detour."""
    if place.exists():
        old = Path(tempfile.mkdtemp(prefix=".old-", dir=place.parent))
        os.replace(place, old)
        os.replace(fresh, place)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(fresh, place)
    place.chmod(0o755)  # mkdtemp makes folders private


@contextmanager
def _writing(path: Path, only: frozenset[int] | None = None) -> Iterator[None]:
    """Turn a failure to write into the user's error; ``only`` certain ones, where others may have other causes."""
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> UserError:
    """Return the error that the output folder is read-only, full, or not a folder."""
    return user_error(
        "output-folder",
        f"the output folder must be writable; `{path}` is not: {error.strerror}",
        hint="choose another folder with --out",
        stage="arguments",
    )
