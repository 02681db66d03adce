"""Call of a program that puts files on boards, and explanations of its failures."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw_boards.loader import Loader
from onnx_hw_tools.process import Command, ToolFailed, execute

LOG = "program.log"
TIMEOUT = 600.0  # seconds; a flash is written in one or two minutes


def call_loader(loader: Loader, arguments: Sequence[str], folder: Path) -> None:
    """Call a program.

    Args:
        folder: folder of the build, where the program's output goes.

    Raises:
        UserError: it is not there, lacks a library, or may not use the USB.
        ToolFailed: it failed in another way.
    """
    command = (*_found(loader), *arguments)
    try:
        execute([Command(loader.program, command, Path.cwd(), folder / LOG)], timeout=TIMEOUT)
    except ToolFailed as failure:
        raise _explained(failure, loader.program) or failure from None


def _found(loader: Loader) -> tuple[str, ...]:
    """Find the program, by an environment variable, on ``PATH``, or next to Python, where wheels put it."""
    name, variable = loader.program, loader.program.upper()
    if named := shlex.split(os.environ.get(variable, "")):
        return tuple(named)
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise user_error(
            "loader-missing",
            f"the program {name} must be installed",
            where=f"${variable}, PATH",
            hint=f"get it with {loader.get}",
            stage="tools",
            exit_code=ExitCode.TOOL_FAILED,
        )
    return (found,)


_RIGHTS = "the USB device must be open to you: give yourself the rights by a udev rule, or be in the group `plugdev`"
_ABSENT = "the board must be plugged in, and no other program may use it"

EXPLAINED = {
    "libusb-1.0.so": "the system's library libusb-1.0 must be there: apt install libusb-1.0-0, or brew install libusb",
    "LIBUSB_ERROR_ACCESS": _RIGHTS,
    "insufficient permissions": _RIGHTS,
    "Permission denied": _RIGHTS,
    "usb_open() failed": _RIGHTS,
    "device not found": _ABSENT,
    "Can't find iCE FTDI USB device": _ABSENT,
    "unable to open ftdi device": _ABSENT,
}
"""Meanings of what a loader prints; the first text that occurs counts."""


def _explained(failure: ToolFailed, name: str) -> UserError | None:
    text = failure.log.read_text(encoding="utf-8", errors="replace")
    for printed, meaning in EXPLAINED.items():
        if printed in text:
            return user_error(
                "loader-failed",
                meaning,
                where=str(failure.log),
                hint=f"then call `onnx-hw program` again; {name} failed ({failure.reason})",
                stage="tools",
                exit_code=ExitCode.TOOL_FAILED,
            )
    return None
