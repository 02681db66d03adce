"""The boards on the terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

import onnx_hw_boards


def table() -> Table:
    """One row a board: what it is, what its chip holds."""
    rows = Table(box=None, pad_edge=False, padding=(0, 2, 0, 1), header_style="bold")
    rows.add_column("board")
    rows.add_column("", overflow="fold")
    for heading in ("LUT4", "FF", "DSP", "BRAM", "pins", "clock"):
        rows.add_column(heading, justify="right", no_wrap=True)
    for name in onnx_hw_boards.names():
        board = onnx_hw_boards.board(name)
        budget = board.budget
        numbers = (budget.lut, budget.ff, budget.dsp, budget.bram, len(board.pins))
        clock = f"{board.default_clock_mhz:g} MHz"
        rows.add_row(Text(name, "bold"), Text(board.title), *(f"{number:,}" for number in numbers), clock)
    return rows
