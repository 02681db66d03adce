"""Files that a compiler made once, with a record of their contents, so that damaged ones are made again.

To load a library whose file ends early kills the process, and a table full of zeros looks like a fault of the circuit.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from onnx_hw_tools.user_cache import exclusively

LOCK, RECORD = "lock", "compiled.json"


def compile_once(folder: Path, names: Sequence[str], make: Callable[[], None]) -> None:
    """Make files in a folder, unless they are there as they were made; one process does it, and others wait.

    Args:
        names: the files that count.
        make: function that makes them; the folder is empty then, but for the lock.
    """
    if _are_intact(folder, names):
        return
    _remove_unless_file(folder / LOCK)
    with exclusively(folder / LOCK):
        if _are_intact(folder, names):
            return
        _clear(folder)
        make()
        digests = {name: _digest(folder / name) for name in names}
        (folder / RECORD).write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


def _are_intact(folder: Path, names: Sequence[str]) -> bool:
    """Return whether files are there as they were recorded."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return all(record[name] == _digest(folder / name) for name in names)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _clear(folder: Path) -> None:
    """Remove everything in a folder, whatever it is, but the lock."""
    for place in folder.iterdir():
        if place.name != LOCK:
            _remove(place)


def _remove_unless_file(lock: Path) -> None:
    """Remove what stands in the place of a lock and is no file: a folder, a pipe or a link cannot be held."""
    if lock.is_symlink() or (lock.exists() and not lock.is_file()):
        _remove(lock)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
