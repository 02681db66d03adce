"""FPGA boards: one file per board in ``boards/``, found by its name. A new board is a new file that defines ``BOARD``.

No file is imported before its board is asked for: those with a platform class wait for Amaranth.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from functools import cache
from pathlib import Path

from onnx_hw_boards.board import Board

__all__ = ["board", "names", "read"]

_DEFINES = re.compile(r"^BOARD\b", re.MULTILINE)


@cache
def names() -> tuple[str, ...]:
    """The boards there are, sorted."""
    files = (Path(__file__).parent / "boards").glob("*.py")
    return tuple(sorted(file.stem for file in files if _DEFINES.search(file.read_text(encoding="utf-8"))))


def board(name: str) -> Board:
    """The board of that name.

    Raises:
        KeyError: there is none.
    """
    if name not in names():
        raise KeyError(name)
    found: Board = importlib.import_module(f"{__name__}.boards.{name}").BOARD
    return found


def read(path: Path) -> Board:
    """The board that a file of the user's defines.

    Raises:
        ValueError: it defines none.
        Exception: whatever the file raises.
    """
    spec = importlib.util.spec_from_file_location(f"{__name__}.of_user.{path.stem}", path)
    assert spec is not None and spec.loader is not None, "the name of the file ends in .py"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, "BOARD", None)
    if not isinstance(found, Board):
        raise ValueError(f"BOARD must be a board, not {found!r}")
    return found
