"""Programming of a board: the commands for it."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_hw_boards
from onnx_hw.assemble.board_file import read_board
from onnx_hw.commands.call_loader import call_loader
from onnx_hw.commands.program_tape import TapeProgramming, put_tape
from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.messages.near_paths import hint_for_build_folder
from onnx_hw.messages.regular_file import require_regular_file
from onnx_hw_boards.board import Board
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.loader import Loader
from onnx_hw_boards.verilog_board import VerilogBoard


@dataclass(frozen=True)
class Programming:
    """Command that puts a bitstream on a board.

    Attributes:
        board: name of the board.
        command: program and arguments.
        folder: folder of the build, where the program's output goes.
        loader: program.
        tape: weights that go to the flash, too; None without any, or where the flash is not written.
        needs_tape: whether the flash must hold weights already.
    """

    board: str
    command: tuple[str, ...]
    folder: Path
    loader: Loader
    tape: TapeProgramming | None = None
    needs_tape: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """All commands, one after the other."""
        return (*(self.tape.lines if self.tape else ()), shlex.join(self.command))

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
    command = (loader.program, *arguments, str(folder / bitstream))
    named = report.get("files", {}).get("tape")
    if named is None:
        return Programming(target.name, command, folder, loader)
    tape = _tape(folder / named, report.get("tape_sha256"), target, loader)
    return Programming(target.name, command, folder, loader, tape if flash else None, needs_tape=not flash)


def _tape(file: Path, wanted: str | None, board: Board, loader: Loader) -> TapeProgramming:
    """Return how weights get into the flash of a board; raise ``UserError`` where they are not those of the build."""
    if not file.is_file() or (wanted and _sha256(file) != wanted):
        message = f"the weights outside the chip must be those of the build; {file.name} has changed since, or is gone"
        raise _refused("other-tape", message, file.parent, "build it again")
    if board.memory is None or loader.raw is None:
        message = f"`{board.name}` must have a flash for weights, and a program that writes it; onnx-hw knows none"
        raise _refused("other-tape", message, file.parent, "build it for `ulx3s`")
    if file.stat().st_size > board.memory.room():
        message = f"the weights must fit in the {board.memory.room():,} bytes of flash behind the bitstream"
        raise _refused(
            "other-tape", f"{message}; {file.name} has {file.stat().st_size:,}", file.parent, "build it again"
        )
    return TapeProgramming(file, board.memory.offset, loader)


def _sha256(file: Path) -> str:
    with require_regular_file(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def run(wanted: Programming, note: Callable[[str], None] = lambda line: None) -> None:
    """Call the program, for the weights outside the chip first.

    Args:
        note: called with each command, and with what it leads to.

    Raises:
        UserError: it is not there, lacks a library, or may not use the USB; the flash holds something else than was
            written.
        ToolFailed: it failed in another way.
    """
    if wanted.tape is not None:
        put_tape(wanted.tape, note)
    note(shlex.join(wanted.command))
    call_loader(wanted.loader, wanted.command[1:], wanted.folder)


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
