"""Files that outlive a build and are shared by all of them, safe for several processes at once."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


def user_cache() -> Path:
    """Return ``$XDG_CACHE_HOME/onnx-hw`` or ``~/.cache/onnx-hw``; a folder that ends with the process if unwritable."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnx-hw"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # the latter where nobody knows the home
        pass
    return _private_folder()


@cache
def _private_folder() -> Path:
    """Return a folder new for this process: files in a folder that others can write to must not be executed."""
    folder = Path(tempfile.mkdtemp(prefix="onnx-hw-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def exclusively(lock: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock file until the process ends at the latest; ``on_wait`` is called before waiting for another."""
    from filelock import FileLock, Timeout

    lock.parent.mkdir(parents=True, exist_ok=True)
    holder = FileLock(lock)
    try:
        holder.acquire(blocking=False)
    except Timeout:
        on_wait()
        holder.acquire()
    try:
        yield
    finally:
        holder.release()
