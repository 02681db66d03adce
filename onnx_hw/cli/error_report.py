"""Whatever ends a command early, as problems to show and an exit code."""

from __future__ import annotations

import platform
import shlex
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import click

from onnx_hw.cli.parameter_types import WrongValue
from onnx_hw.cli.usage_hints import UnknownCommand, hint_for_option
from onnx_hw.messages.errors import ExitCode, Problem
from onnx_hw.messages.text import legible
from onnx_hw.messages.translate_error import as_user_error
from onnx_hw.messages.version import __version__

TRACEBACK_FILE = "traceback.txt"


@dataclass(frozen=True)
class Ending:
    """How a command ended that did not end well; ``problems`` is empty when the user stopped it."""

    exit_code: ExitCode
    problems: tuple[Problem, ...] = ()


def explain(error: BaseException, folder: Path | None = None) -> Ending:
    """Return the ending for an exception: its problems and the exit code.

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


def _usage_problem(error: click.ClickException) -> Problem:
    """Return click's own message, with the nearest name and the command that lists the names."""
    message = error.format_message()
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"`{error.ctx.command_path} --help` shows how it is used"
    if isinstance(error, click.NoSuchOption):
        message = f"there is no option `{error.option_name}`"
        options = []
        if error.ctx is not None:
            options = [name for option in error.ctx.command.get_params(error.ctx) for name in option.opts]
        hint = hint_for_option(error.option_name, options) or hint
    if isinstance(error, (UnknownCommand, WrongValue)):
        hint = error.hint or hint
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
