"""FPGA boards: one file per board, found by its name. Adding a board is adding a file that defines ``BOARD``."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from onnx_hw_boards.board import Board

__all__ = ["board", "names"]


def names() -> tuple[str, ...]:
    """The boards there are, sorted."""
    modules = (info.name for info in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in modules if hasattr(_module(name), "BOARD")))


def board(name: str) -> Board:
    """The board of that name.

    Raises:
        KeyError: there is none.
    """
    if name not in names():
        raise KeyError(name)
    found: Board = _module(name).BOARD
    return found


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
