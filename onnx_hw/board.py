"""Boards as the user meets them: found by name, refused when the streams need more pins than there are."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_hw_boards
from onnx_hw.errors import ExitCode, Problem, UserError, user_error
from onnx_hw.spelling import did_you_mean
from onnx_hw_boards.board import Board
from onnx_hw_boards.device import Budget
from onnx_hw_boards.pins import NotEnoughPins, PadStream, constraints, place

__all__ = ["check_fit", "find_board", "pin_constraints"]


def find_board(name: str) -> Board:
    """The board called ``name``.

    Raises:
        UserError: there is none; the hint names the nearest.
    """
    known = onnx_hw_boards.names()
    if name not in known:
        raise user_error(
            "unknown-board",
            f"the board must be one that is known, not `{name}`",
            where="--board",
            hint=did_you_mean(name, known),
            stage="arguments",
        )
    return onnx_hw_boards.board(name)


def pin_constraints(board: Board, streams: Sequence[PadStream], clock_mhz: float) -> str:
    """The text of nextpnr's LPF file: every bit of the streams on a pin of its own.

    Raises:
        UserError: more bits than pins; the hint says how many lanes would fit.
    """
    try:
        return constraints(board, place(board, streams), clock_mhz)
    except NotEnoughPins as shortage:
        widest = max(streams, key=lambda stream: stream.pins)
        if shortage.lanes:
            hint = f"at most {shortage.lanes} lanes per stream at the network's inputs and outputs fit"
        else:
            hint = "not even one lane per stream fits: the model has too many inputs and outputs for this board"
        raise user_error(
            "too-many-pins",
            f"the streams must fit on {shortage.available} pins of `{board.name}`; they need {shortage.needed}",
            where=f"stream `{widest.name}`: {widest.lanes} lanes of {widest.bits} bits",
            hint=hint,
            stage="capability",
            exit_code=ExitCode.DOES_NOT_FIT,
        ) from None


def check_fit(used: Budget, board: Board) -> None:
    """Refuse a design that needs more of anything than the chip has, every shortage at once.

    Raises:
        UserError: by how much.
    """
    names = {"lut": "look-up tables", "ff": "flip-flops", "dsp": "multipliers", "bram": "block RAMs"}
    problems = []
    for field, name in names.items():
        need, have = getattr(used, field), getattr(board.budget, field)
        if need > have:
            problems.append(
                Problem(
                    "too-big",
                    f"the {board.device.name} must hold the design: it has {have:,} {name}, {need:,} are needed",
                    hint="use fewer lanes: `--multipliers N`",
                    stage="capability",
                )
            )
    if problems:
        raise UserError(*problems, exit_code=ExitCode.DOES_NOT_FIT)
