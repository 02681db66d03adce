"""The boards on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

import onnx_hw_boards
from onnx_hw.cli.show.digits_on_boards import DIGITS_ON_BOARDS
from onnx_hw.messages.errors import UserError
from onnx_hw.report.fact import Fact
from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.board import Board
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.verilog_board import VerilogBoard

if TYPE_CHECKING:
    from onnx_hw.commands.fit_boards import BoardFit


def listed() -> Group:
    """Of each board what it is, what its chip holds, how a host reaches it, its clock, and what an example gets."""
    return Group(*(_fact(name, _said(onnx_hw_boards.board(name)) + _example(name)) for name in onnx_hw_boards.names()))


def _example(board: str) -> Text:
    return Text(f"\ndigits gets {DIGITS_ON_BOARDS[board]}" if board in DIGITS_ON_BOARDS else "")


def fitting(board: Board, found: BoardFit | UserError) -> Fact:
    """A model on a board."""
    said = f"does not fit: {found.problems[0].message}" if isinstance(found, UserError) else repr(found)
    return _fact(board.name, Text(said))


def _fact(name: str, said: Text) -> Fact:
    return Fact(name, said, max(map(len, onnx_hw_boards.names())) + 1)


def _said(board: Board) -> Text:
    if isinstance(board, VerilogBoard):
        return Text(f"{board.title}\nas much as fits an {board.device.name}; {board.default_clock_mhz:g} MHz")
    cells = board.cells
    amounts = {"LUT4": cells.lut, "FF": cells.ff, "DSP": cells.dsp, "BRAM": cells.bram}
    if isinstance(board, BareChip):
        amounts["pins"] = len(board.pins)
    held = ", ".join(f"{amount:,} {what}" for what, amount in amounts.items())
    link = f"; {board.link}" if isinstance(board, LinkedBoard) else ""
    return Text(f"{board.title}\n{held}{link}; {board.default_clock_mhz:g} MHz")
