"""Programming of a board: the command for it, and explanations of its failures."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_hw_boards
from onnx_hw.assemble.board_file import read_board
from onnx_hw.messages.errors import ExitCode, UserError, user_error
from onnx_hw.messages.near_paths import hint_for_build_folder
from onnx_hw.messages.regular_file import require_regular_file
from onnx_hw_boards.board import Board
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.loader import Loader
from onnx_hw_boards.verilog_board import VerilogBoard
from onnx_hw_tools.process import Command, ToolFailed, execute

LOG = "program.log"
TIMEOUT = 600.0  # seconds; a flash is written in one or two minutes


@dataclass(frozen=True)
class Programming:
    """Command that puts a bitstream on a board.

    Attributes:
        board: name of the board.
        command: program and arguments.
        folder: folder of the build, where the program's output goes.
        loader: program.
    """

    board: str
    command: tuple[str, ...]
    folder: Path
    loader: Loader

    def __repr__(self) -> str:
        return shlex.join(self.command)


def programming(folder: Path, *, flash: bool = False, board: str | None = None) -> Programming:
    """Return the command that programs a board with the build in a folder.

    Args:
        flash: write the flash. Without it nothing is written that outlives a power-off.
        board: file of the build's board, where that is the user's own.

    Raises:
        UserError: there is no bitstream, or it is not the build's; no program is known for such a board, or only one
            for its flash.
    """
    report = _report(folder)
    target = _board(report, board)
    loader = _loader_of(target)
    bitstream = report.get("files", {}).get("bitstream")
    if bitstream is None or not (folder / bitstream).is_file():
        raise _refused("no-bitstream", "the build must have a bitstream", folder, "build it without --stop-after")
    if (wanted := report.get("bitstream_sha256")) and _sha256(folder / bitstream) != wanted:
        message = f"the bitstream must be that of the build; {bitstream} has changed since"
        raise _refused("other-bitstream", message, folder, "build it again")
    arguments = loader.flash if flash else loader.memory
    if arguments is None:
        raise _refused(
            "only-flash",
            f"`{target.name}` can be programmed through its flash only, which keeps the bitstream",
            folder,
            shlex.join(["onnx-hw", "program", str(folder), *([] if board is None else ["--board", board]), "--flash"]),
        )
    return Programming(target.name, (loader.program, *arguments, str(folder / bitstream)), folder, loader)


def _sha256(file: Path) -> str:
    with require_regular_file(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def run(wanted: Programming) -> None:
    """Call the program.

    Raises:
        UserError: it is not there, lacks a library, or may not use the USB.
        ToolFailed: it failed in another way.
    """
    name, *arguments = wanted.command
    command = (*_found(wanted.loader), *arguments)
    log = wanted.folder / LOG
    try:
        execute([Command(name, command, Path.cwd(), log)], timeout=TIMEOUT)
    except ToolFailed as failure:
        raise _explained(failure, name) or failure from None


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


def _loader_of(board: Board) -> Loader:
    if not isinstance(board, LinkedBoard):
        nowhere = isinstance(board, VerilogBoard)
        what = "Verilog, without a bitstream" if nowhere else "a bare chip, which anything may program"
        raise user_error(
            "bare-chip",
            f"the build must be for a board; `{board.name}` is {what}",
            hint="`onnx-hw boards` lists boards: those with a link",
            stage="arguments",
        )
    return board.loader


def _board(report: Any, file: str | None) -> Board:
    name = report["board"]["name"]
    if file is not None:
        board = read_board(file)
        if board.name == name:
            return board
        other = f"the build is for `{name}`, not for `{board.name}`"
    elif name in onnx_hw_boards.names():
        return onnx_hw_boards.board(name)
    else:
        other = f"the build is for `{name}`, which is not a board of onnx-hw"
    raise user_error("other-board", other, hint="name its file: --board ./my_board.py", stage="arguments")


def _report(folder: Path) -> Any:
    from onnx_hw.report.read import REPORT

    try:
        report = json.loads(require_regular_file(folder / REPORT).read_text(encoding="utf-8"))
        report["board"]["name"]
    except (OSError, ValueError, TypeError, KeyError):
        hint = hint_for_build_folder(folder, REPORT, "`onnx-hw build MODEL --board ...` makes one")
        raise _refused("no-build", "the folder must be that of a build", folder, hint) from None
    return report


def _refused(code: str, message: str, folder: Path, hint: str) -> UserError:
    return user_error(code, message, where=str(folder), hint=hint, stage="arguments")
