"""Lookup of boards: by name, or in a file of the user's."""

from __future__ import annotations

import onnx_hw_boards
from onnx_hw.assemble.board_file import read_board
from onnx_hw.messages.errors import user_error
from onnx_hw.messages.text import did_you_mean
from onnx_hw_boards.board import Board
from onnx_hw_boards.verilog_board import VerilogBoard


def find_board(name: str) -> Board:
    """Return the board called ``name``, or the one that a file of the user's defines, whose name ends in ``.py``.

    Raises:
        UserError: there is no such board, and the hint names the nearest; or the file defines no board.
    """
    if name.endswith(".py"):
        return read_board(name)
    known = onnx_hw_boards.names()
    if name not in known:
        raise user_error(
            "unknown-board",
            f"the board must be one that is known, or a file of your own that ends in `.py`, not `{name}`",
            where="--board",
            hint=did_you_mean(name, known),
            stage="arguments",
        )
    return onnx_hw_boards.board(name)


def chips() -> tuple[str, ...]:
    """Return the names of the chips that boards have, and of their families, sorted."""
    every = [onnx_hw_boards.board(name) for name in onnx_hw_boards.names()]
    with_chip = [board for board in every if not isinstance(board, VerilogBoard)]
    return tuple(sorted({name for board in with_chip for name in (board.device.name, board.family.name)}))


def boards_with(chip: str | None) -> tuple[str, ...]:
    """Return the names of the boards with a chip, or of a chip family, in any case of letters; None for all boards.

    Raises:
        UserError: no board has it.
    """
    if chip is None:
        return onnx_hw_boards.names()
    every = {name: onnx_hw_boards.board(name) for name in onnx_hw_boards.names()}
    names = tuple(
        name
        for name, board in every.items()
        if not isinstance(board, VerilogBoard)
        and chip.lower() in (board.device.name.lower(), board.family.name.lower())
    )
    if not names:
        raise user_error(
            "unknown-chip",
            f"--chip must be a chip or a chip family of a board, not `{chip}`",
            where="--chip",
            hint=did_you_mean(chip, chips()),
            stage="arguments",
        )
    return names
