"""Lookup of boards: by name, or in a file of the user's."""

from __future__ import annotations

import onnx_hw_boards
from onnx_hw.assemble.board_file import read_board
from onnx_hw.messages.errors import user_error
from onnx_hw.messages.text import did_you_mean, nearest
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
            hint=_hint_for_board(name),
            stage="arguments",
        )
    return onnx_hw_boards.board(name)


def _hint_for_board(name: str) -> str:
    """Return the boards that may have been meant: of that chip, with that first word, or with the nearest name."""
    every = {known: onnx_hw_boards.board(known) for known in onnx_hw_boards.names()}
    with_chip = {known: board for known, board in every.items() if not isinstance(board, VerilogBoard)}
    wanted = _letters(name)
    has_it = [
        known
        for known, board in with_chip.items()
        if wanted.startswith(_letters(board.device.name))
        or (len(wanted) >= 4 and any(_letters(n).startswith(wanted) for n in (board.device.name, board.family.name)))
    ]
    if has_it:
        return f"that is a chip, and the boards with such a chip are {', '.join(f'`{known}`' for known in has_it)}"
    first_word = name.lower().split("_")[0]
    relatives = [known for known in every if known.split("_")[0] == first_word]
    near = nearest(name, every)
    if relatives or near:
        meant = [
            f"`{known}`" + (f" ({with_chip[known].device.name})" if known in with_chip else "")
            for known in relatives or [near]
        ]
        return f"did you mean {' or '.join(filter(None, (', '.join(meant[:-1]), meant[-1])))}?"
    return f"there is {', '.join(f'`{known}`' for known in every)}; `verilog` writes Verilog for any other chip"


def _letters(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(character for character in name.lower() if character.isalnum())


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
