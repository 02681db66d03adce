"""Whatever ends a command early, as problems to show and an exit code; the one place that words tools' errors."""

from __future__ import annotations

import errno
import os
import platform
import shlex
import shutil
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import click

from onnx_hw import __version__
from onnx_hw.errors import ExitCode, Problem, ToolProblem, UserError, user_error
from onnx_hw.spelling import did_you_mean, legible
from onnx_hw_tools.tools import ToolFailed, ToolMissing

TRACEBACK_FILE = "traceback.txt"
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


@dataclass(frozen=True)
class Ending:
    """How a command ended that did not end well; ``problems`` is empty when the user stopped it."""

    exit_code: ExitCode
    problems: tuple[Problem, ...] = ()


def explain(error: BaseException, folder: Path | None = None) -> Ending:
    """What to say about an exception.

    Args:
        folder: the output folder, if there is one; the traceback of a bug is written there, else to a temporary file.
    """
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return Ending(ExitCode.INTERRUPTED)
    if isinstance(error, click.ClickException):
        return Ending(ExitCode.USAGE, (_usage_problem(error),))
    known = as_user_error(error)
    if known is not None:
        return Ending(known.exit_code, known.problems)
    return Ending(ExitCode.BUG, (_bug_problem(error, folder),))


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


def _usage_problem(error: click.ClickException) -> Problem:
    """click's own message, with the nearest name and the command that shows what there is."""
    message = error.format_message()
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"`{error.ctx.command_path} --help` shows how it is used"
    if isinstance(error, click.NoSuchOption):
        message = f"there is no option `{error.option_name}`"
        hint = did_you_mean(error.option_name, error.possibilities or ()) or hint
    return Problem("usage", message.removesuffix("."), hint=hint, stage="arguments")


def _bug_problem(error: BaseException, folder: Path | None) -> Problem:
    kind = type(error).__name__
    return Problem(
        "bug",
        f"this is a bug of onnx-hw: {kind}{f': {error}' if str(error) else ''}",
        where=str(_write_traceback(error, folder)),
        hint="please report it with this file and, if you may share it, the model",
    )


def _write_traceback(error: BaseException, folder: Path | None) -> Path:
    text = "\n".join(
        (
            f"onnx-hw {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"$ {shlex.join(sys.argv)}",
            "",
            "".join(traceback.format_exception(error)),
        )
    )
    text = legible(text)
    if folder is not None and folder.is_dir():
        place = folder / TRACEBACK_FILE
        try:
            place.write_text(text, encoding="utf-8", errors="backslashreplace")
            return place
        except OSError:
            pass  # a folder that cannot be written may be what went wrong
    try:
        return _write_temporary(text)
    except OSError:
        return Path("nowhere: no folder can be written")


def _write_temporary(text: str) -> Path:
    with tempfile.NamedTemporaryFile(
        "w", prefix="onnx-hw-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
    ) as file:
        file.write(text)
        return Path(file.name)
