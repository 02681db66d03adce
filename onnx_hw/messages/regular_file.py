"""Reading of files that a user may have put something else in place of: a pipe would keep us waiting for ever."""

from __future__ import annotations

import errno
from pathlib import Path


def require_regular_file(path: Path) -> Path:
    """Return a path that is not a pipe or a device; whatever else is wrong with it, opening it will say.

    Raises:
        OSError: it is one.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return path
