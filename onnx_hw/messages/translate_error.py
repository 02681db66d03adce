"""What ends a command early, as something the user can mend; the one place that words the errors of tools and of the
machine."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from onnx_hw.messages.errors import ExitCode, ToolProblem, UserError, user_error
from onnx_hw_tools.tools import ToolFailed, ToolMissing

LITTLE_ROOM = 1 << 16  # bytes

_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
_FILES = {
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EIO,
    errno.ESTALE,
    errno.EMFILE,
    errno.ENFILE,
}
"""What no program can do anything about."""


def as_user_error(error: BaseException) -> UserError | None:
    """The same as something the user can mend, or None if it is not."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, ToolMissing):
        return user_error(
            "tool-missing",
            f"the program {error.tool} must be there; looked at {', '.join(error.looked)}",
            hint=f"{error.extra}, or name it in the environment variable {error.variable}; `onnx-hw doctor` shows all",
            stage="tools",
            exit_code=ExitCode.TOOL_FAILED,
        )
    if isinstance(error, ToolFailed) and _is_full(error.log):
        return _no_room(f"{error.tool} failed, and no room is left for its files", str(error.log))
    if isinstance(error, ToolFailed):
        problem = ToolProblem(
            "tool-failed",
            f"{error.tool} failed: {error.reason}{'; its last words:' if error.last_lines else ''}",
            str(error.log),
            "the file holds everything it printed",
            "tools",
            error.last_lines,
        )
        return UserError(problem, exit_code=ExitCode.TOOL_FAILED)
    if isinstance(error, OSError) and error.errno in _DISK:
        return _no_room(f"files must be writable: {error.strerror}", str(error.filename or ""))
    if isinstance(error, OSError) and (error.errno in _FILES or _has_gone(error)):
        return user_error(
            "file-system",
            f"files must be accessible: {error.strerror}",
            where=os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "",
            hint="a folder may have been removed, or its rights may have changed, while onnx-hw was at work",
            stage="machine",
        )
    if isinstance(error, MemoryError):
        detail = f": {error}" if str(error) else ""
        return user_error("memory", f"the memory of this machine is used up{detail}", stage="machine")
    return None


def _has_gone(error: OSError) -> bool:
    """Whether a file is missing together with its folder: somebody else has removed that."""
    if error.errno != errno.ENOENT:
        return False
    if not isinstance(error.filename, str | bytes):
        return True  # what has no name: the current folder, or one for temporary files
    path = os.fsdecode(error.filename)
    try:
        os.getcwd()
    except OSError:
        return not os.path.isabs(path)
    return not os.path.isdir(os.path.dirname(path) or ".")


def _no_room(message: str, where: str) -> UserError:
    hint = "choose another folder with --out, or make room; temporary files follow the variable TMPDIR"
    return user_error("disk", message, where=where, hint=hint, stage="output")


def _is_full(file: Path) -> bool:
    """Whether there is next to no room where ``file`` lies; what a tool says of it, if anything, is hard to read."""
    try:
        return shutil.disk_usage(file.parent).free < LITTLE_ROOM
    except OSError:
        return False
