"""Reading of files that a user may have put something else in place of: a pipe would keep us waiting for ever."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def is_regular_file(path: Path) -> bool:
    """Return whether a path is a file of a disk: no folder, pipe or device, and no file of the kernel."""
    return path.is_file() and not (path.stat().st_size == 0 and _is_of_the_kernel(path))


def require_regular_file(path: Path) -> Path:
    """Return a path that is not a pipe or a device; whatever else is wrong with it, opening it will say.

    Raises:
        OSError: it is one.
    """
    if path.exists() and not path.is_dir() and not is_regular_file(path):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return path


def _is_of_the_kernel(path: Path) -> bool:
    """Return whether a file is in the file system ``/proc``, where reading may wait, as for the log of the kernel."""
    return os.path.isdir("/proc/self") and path.stat().st_dev == os.stat("/proc").st_dev
