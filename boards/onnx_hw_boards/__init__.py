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

_DEFINES = re.compile(r"^BOARD\b", re.MULTILINE)


@cache
def names() -> tuple[str, ...]:
    """Return the names of the boards, sorted."""
    files = (Path(__file__).parent / "boards").glob("*.py")
    return tuple(sorted(file.stem for file in files if _DEFINES.search(file.read_text(encoding="utf-8"))))


def board(name: str) -> Board:
    """Return the board of a name; raise ``KeyError`` where there is no such board."""
    if name not in names():
        raise KeyError(name)
    defined: Board = importlib.import_module(f"{__name__}.boards.{name}").BOARD
    return defined


def read(path: Path) -> Board:
    """Run a file of the user's, and return the board that it defines.

    Raises:
        ValueError: it defines no board, or one that cannot be: an unknown resource, a name that is no text.
        Exception: whatever the file raises.
    """
    spec = importlib.util.spec_from_file_location(f"{__name__}.of_user.{path.stem}", path)
    assert spec is not None and spec.loader is not None, "the name of the file ends in .py"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    defined = getattr(module, "BOARD", None)
    if not isinstance(defined, Board):
        raise ValueError(f"BOARD must be a board, not {defined!r}")
    defined.verify()
    return defined
