"""Translation of exceptions into errors that a user can mend; the only place that words errors of tools and machine."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from onnx_hw.messages.errors import ExitCode, ToolProblem, UserError, user_error
from onnx_hw_tools.tools import ToolFailed, ToolMissing

MIN_FREE_BYTES = 1 << 16  # a disk with less is full

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
"""Errors of the file system that no program can do anything about."""


def as_user_error(error: BaseException) -> UserError | None:
    """Return the error that a user can mend; None for any other exception, which is a bug."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, ToolMissing):
        return user_error(
            "tool-missing",
            f"the program {error.requirement} must be installed; looked at {', '.join(error.looked)}",
            hint=f"{error.install}, or name another one in {error.variable}; `onnx-hw doctor` shows all",
            stage="tools",
            exit_code=ExitCode.TOOL_FAILED,
        )
    if isinstance(error, ToolFailed) and _is_full(error.log):
        return _no_room(f"{error.tool} failed, and the disk is full", str(error.log))
    if isinstance(error, ToolFailed):
        problem = ToolProblem(
            "tool-failed",
            f"{error.tool} failed: {error.reason}{'; its last lines:' if error.last_lines else ''}",
            str(error.log),
            "the file holds everything that it printed",
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
            hint="a folder may have been removed, or its permissions may have changed, while onnx-hw was running",
            stage="machine",
        )
    if isinstance(error, MemoryError):
        detail = f": {error}" if str(error) else ""
        return user_error("memory", f"this machine has run out of memory{detail}", stage="machine")
    return None


def _has_gone(error: OSError) -> bool:
    """Return whether a file is missing together with its folder, which somebody else must have removed."""
    if error.errno != errno.ENOENT:
        return False
    if not isinstance(error.filename, str | bytes):
        return True  # without a name: the current folder, or one for temporary files
    path = os.fsdecode(error.filename)
    try:
        os.getcwd()
    except OSError:
        return not os.path.isabs(path)
    return not os.path.isdir(os.path.dirname(path) or ".")


def _no_room(message: str, where: str) -> UserError:
    hint = "choose another folder with --out, or free some space; the variable TMPDIR says where temporary files go"
    return user_error("disk", message, where=where, hint=hint, stage="output")


def _is_full(file: Path) -> bool:
    """Return whether the disk of ``file`` is full; a tool may not say so, or not in words that we can read."""
    try:
        return shutil.disk_usage(file.parent).free < MIN_FREE_BYTES
    except OSError:
        return False
