"""Whether a chip holds a design: its cells, and the pins of its package."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onnx_hw.messages.errors import ExitCode, Problem, UserError, user_error
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.pins import NotEnoughPins, PadStream, constraints, place

CELLS = {
    "lut": "look-up tables",
    "ff": "flip-flops",
    "dsp": "multipliers",
    "bram": "block RAMs",
    "logic": "logic cells",
}
"""Names of the fields of ``Cells``, for people."""


def pin_constraints(board: BareChip, streams: Sequence[PadStream], clock_mhz: float) -> str:
    """Return the text of nextpnr's file of constraints: every bit of the streams on a pin of its own.

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


def check_fit(used: Cells, board: Board) -> None:
    """Refuse a design that needs more of anything than the chip has, every shortage at once.

    Raises:
        UserError: the design is too large; the message says by how much.
    """
    amounts = ((name, getattr(used, field), getattr(board.cells, field)) for field, name in CELLS.items())
    problems = [_too_big(board, name, need, have) for name, need, have in amounts if need > have]
    if problems:
        raise UserError(*problems, exit_code=ExitCode.DOES_NOT_FIT)


def too_full(board: Board, log: str) -> UserError | None:
    """Return the error for a design that nextpnr could not place, by its table of utilisation; None if all fits."""
    rows = [(name, int(need), int(have)) for name, need, have in _USED.findall(log)]
    sites = board.family.placement.sites
    problems = [_too_big(board, sites.get(name, name), need, have) for name, need, have in rows if need > have]
    return UserError(*problems, exit_code=ExitCode.DOES_NOT_FIT) if problems else None


NO_PLACEMENT = "Unable to find legal placement"
"""Words of nextpnr where there is enough of everything, and its placer does not get all of it onto the chip."""


def not_placed(board: Board, log: str, seeds: Sequence[int]) -> UserError:
    """Return the error for a design whose cells nextpnr did not get onto the chip, with any of the seeds."""
    fullest = max(((int(need) / int(have), name, need, have) for name, need, have in _USED.findall(log) if int(have)))
    _, name, need, have = fullest
    tried = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    use = f"{int(need):,} of {int(have):,} {board.family.placement.sites.get(name, name)}"
    return UserError(
        Problem(
            "not-placed",
            f"nextpnr must find a place for every cell of the design; with {tried} it did not, at {use}",
            hint=f"use fewer lanes: `--multipliers N`, or try another seed: `--seed {seeds[-1] + 1}`",
            stage="capability",
        ),
        exit_code=ExitCode.DOES_NOT_FIT,
    )


_USED = re.compile(r"^Info:\s+(\S+):\s+(\d+)/\s*(\d+)\s+\d+%", re.MULTILINE)


def _too_big(board: Board, name: str, need: int, have: int) -> Problem:
    return Problem(
        "too-big",
        f"the {board.device.name} must hold the design: it has {have:,} {name}, {need:,} are needed",
        hint="use fewer lanes: `--multipliers N`",
        stage="capability",
    )
