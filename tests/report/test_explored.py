"""The table of an exploration on terminals of several widths."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from onnx_hw.cli.show.explore_table import explore_table
from onnx_hw.commands.explore.grid import Choice
from onnx_hw.commands.explore.row import ExploreRow, State
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw_boards.cells import Cells

MADE = ExploreRow(
    1,
    Choice(board="icebreaker", scheduling=ScheduleRequest(multipliers=16)),
    "onnx-hw build",
    State.PACKED,
    interval=9_216,
    used=Cells(12_797, 3_000, 16, 14),
    fmax_mhz=101.54,
    frames_per_second=11_018.0,
    best=True,
    knee=True,
)
ROWS = (
    MADE,
    replace(
        MADE,
        number=2,
        choice=Choice(board="icebreaker", scheduling=ScheduleRequest(multipliers=8)),
        target_mhz=80,
        fmax_mhz=71.0,
        frames_per_second=None,
        best=False,
        knee=False,
    ),
    *(
        ExploreRow(
            3 + k,
            Choice(board="icebreaker", scheduling=ScheduleRequest(multipliers=k)),
            "",
            State.REFUSED,
            "too few lanes",
        )
        for k in range(1, 8)
    ),
)


def on_terminal(rows: tuple[ExploreRow, ...], width: int, most: int | None = None) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO(), color_system=None)
    console.print(explore_table(rows, most))
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_distinguishes_rows_and_what_became_of_them(width: int) -> None:
    lines = on_terminal(ROWS, width)
    assert lines[0].split() == ["lanes", "cycles", "LUT4", "mult.", "RAM", "MHz", "frames/s"], "the board is the same"
    assert lines[1].split() == ["◆", "16", "9,216", "12,797", "16", "14", "101.5", "11,018"]
    assert lines[2].split() == ["8", "9,216", "12,797", "16", "14", "71.0"]
    assert lines[3:] == ["misses 80 MHz: 8", "refused: too few lanes: 1; 2; 3; 4; 5; 6; 1 more"]


def test_what_there_is_no_place_for_is_counted() -> None:
    rows = tuple(replace(MADE, number=k, choice=replace(MADE.choice, seed=k)) for k in range(1, 21))
    lines = on_terminal(rows, 60, most=8)
    assert len(lines) == 8 and lines[-1] == "14 more"
    assert [line.split()[1] for line in lines[1:-1]] == ["1", "2", "3", "4", "5", "6"]


def test_one_row_has_the_name_of_its_board() -> None:
    assert on_terminal((replace(MADE, fmax_mhz=None),), 60)[0].split()[:2] == ["board", "cycles"]
