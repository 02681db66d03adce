"""The boards on the terminal."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

import onnx_hw_boards
from onnx_hw.report.fact import Fact


def listed() -> Group:
    """Of each board what it is, and what its chip holds."""
    names = onnx_hw_boards.names()
    return Group(*(Fact(name, _said(name), max(map(len, names)) + 1) for name in names))


def _said(name: str) -> Text:
    board = onnx_hw_boards.board(name)
    cells = board.cells
    amounts = {"LUT4": cells.lut, "FF": cells.ff, "DSP": cells.dsp, "BRAM": cells.bram, "pins": len(board.pins)}
    held = ", ".join(f"{amount:,} {what}" for what, amount in amounts.items())
    return Text(f"{board.title}\n{held}; {board.default_clock_mhz:g} MHz")
