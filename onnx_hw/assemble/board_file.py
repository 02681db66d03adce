"""A user's file that defines a board. It is tried in a process of its own first, which it may end as it likes."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import onnx_hw_boards
from onnx_hw.messages.errors import UserError, user_error
from onnx_hw_boards.board import Board
from onnx_hw_tools.process import ToolFailed, execute, python_command

ANSWER, LOG = "answer.txt", "log"

SECONDS = 15.0
"""Time that a file has to define its board; Amaranth and the platform's classes take one or two."""


def read_board(file: str) -> Board:
    """Return the ``BOARD`` of a Python file; raise ``UserError`` where it is missing, fails, or defines none."""
    path = Path(file)
    if not path.is_file():
        raise user_error(
            "board-file",
            "the file of the board must be there",
            where=f"--board {file}",
            hint="`onnx-hw boards` lists those that come along",
            stage="arguments",
        )
    if fault := _fault(path.resolve(), hashlib.sha256(path.read_bytes()).hexdigest()):
        raise _refused(file, fault)
    try:
        return onnx_hw_boards.read(path)
    except Exception as error:
        raise _refused(file, f"running it gives {_words(error)}") from error


def _refused(file: str, fault: str) -> UserError:
    hint = "docs/boards.md shows such a file"
    message = f"the file must define a board; {fault}"
    return user_error("board-file", message, where=f"--board {file}", hint=hint, stage="arguments")


def _words(error: BaseException) -> str:
    """Return the kind of an error and its text, unless that fails in its turn."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except BaseException:  # the text of an error of the user's may raise anything
        return kind


@lru_cache(maxsize=64)
def _fault(path: Path, _digest: str) -> str:
    """Return what is wrong with a file, as part of a sentence; "" where it defines a board."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = "onnx_hw.assemble.board_file", str(path), str(folder / ANSWER)
        try:
            execute([python_command("python", *words, cwd=Path.cwd(), log=folder / LOG)], timeout=SECONDS)
        except OSError:
            return ""  # no other Python can be started: the file is run in this one alone
        except ToolFailed as failure:
            return f"running it ends the program: {failure.reason}"
        try:
            answer = (folder / ANSWER).read_text(encoding="utf-8")
        except OSError:
            return "running it ends the program"
        return answer.removeprefix("board")


def _try_file(path: str, answer: str) -> None:
    """Run a file, and write ``board``, or what is wrong with it."""
    try:
        onnx_hw_boards.read(Path(path))
    except BaseException as error:  # SystemExit and KeyboardInterrupt are no more than others here
        found = f"running it gives {_words(error)}"
    else:
        found = "board"
    Path(answer).write_text(found, encoding="utf-8", errors="backslashreplace")
    os._exit(0)  # without what the file may have left for the end: threads, and functions of `atexit`


if __name__ == "__main__":
    _try_file(*sys.argv[1:])
