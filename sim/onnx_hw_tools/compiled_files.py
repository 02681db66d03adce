"""Files that a compiler made once, with a record of their contents, so that damaged ones are made again.

To load a library whose file ends early kills the process, and a table full of zeros looks like a fault of the circuit.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

RECORD = "compiled.json"


def are_intact(folder: Path, names: Sequence[str]) -> bool:
    """Return whether files are there as they were recorded."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return all(record[name] == _digest(folder / name) for name in names)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def record(folder: Path, names: Sequence[str]) -> None:
    """Record the contents of files that are complete."""
    digests = {name: _digest(folder / name) for name in names}
    (folder / RECORD).write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")


def clear(folder: Path, lock: Path) -> None:
    """Remove everything in a folder, whatever it is, but the lock."""
    for place in folder.iterdir():
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif place != lock:
            place.unlink()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
