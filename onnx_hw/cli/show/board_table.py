"""Tables of boards on the terminal: what they are, and what a model gets on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

import onnx_hw_boards
from onnx_hw.messages.errors import UserError
from onnx_hw.report.fact import Fact
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.verilog_board import VerilogBoard

if TYPE_CHECKING:
    from onnx_hw.commands.fit_boards import BoardFit


def board_table(names: Sequence[str]) -> Group:
    """Return the title, the chip's cells, the link to a host and the clock of the boards of these names."""
    return Group(*(_row(name, _description(onnx_hw_boards.board(name))) for name in names))


def fit_row(board: Board, fit: BoardFit | UserError) -> Fact:
    """Return the line that says whether a model fits a board, and how fast it is there."""
    text = f"does not fit: {fit.problems[0].message}" if isinstance(fit, UserError) else repr(fit)
    return _row(board.name, Text(text))


def _row(name: str, text: Text) -> Fact:
    return Fact(name, text, max(map(len, onnx_hw_boards.names())) + 1)


def _description(board: Board) -> Text:
    if isinstance(board, VerilogBoard):
        return Text(f"{board.title}\nas much as fits an {board.device.name}; {board.default_clock_mhz:g} MHz")
    cells = board.cells
    amounts = {"LUT4": cells.lut, "FF": cells.ff, "DSP": cells.dsp, "BRAM": cells.bram}
    if isinstance(board, BareChip):
        amounts["pins"] = len(board.pins)
    contents = ", ".join(f"{amount:,} {name}" for name, amount in amounts.items())
    link = f"; {board.link}" if isinstance(board, LinkedBoard) else ""
    return Text(f"{board.title}\n{contents}{link}; {board.default_clock_mhz:g} MHz")
