"""Tables of ``onnx-hw explore`` on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from onnx_hw.commands.explore.report import _routed, ordered, said
from onnx_hw.commands.explore.row import ENDED, ExploreRow
from onnx_hw.messages.html import figures

if TYPE_CHECKING:
    from onnx_hw.commands.explore.result import Explored

BOARD = "--board"
COLUMNS = {"--multipliers": "lanes"}
"""Headings of columns that differ from the option, by option."""

DEFAULTS = {"--seed": "1"}
"""Values of options that a choice may leave out."""

QUALITIES: dict[str, Callable[[ExploreRow], str]] = {
    "accuracy": lambda row: "" if row.accuracy is None else f"{row.accuracy:.2%}",
    "dB": lambda row: "" if row.sqnr_db is None else f"{row.sqnr_db:.1f}",
    "latency, µs": lambda row: "" if row.latency_us is None else f"{row.latency_us:,.1f}",
}
"""Texts of the columns about quality and latency, which are left out where they are empty."""

MAX_NAMED = 6  # choices in a line that have the same outcome; the others are effort


def explore_table(rows: Sequence[ExploreRow], most: int | None = None) -> Group:
    """Return the rows as a table, with the options in which they differ.

    Rows that are not on the Pareto front are dim; the knee has a mark. Rows that have ended, or are not ready, are
    named below the table, together where they have the same outcome.

    Args:
        most: greatest number of lines; None for any.
    """
    rows, options = ordered(rows), distinguishing(rows)
    below = _below(rows, options)
    alive = [row for row in rows if row.state not in ENDED]
    room = len(alive) if most is None else max(1, most - len(below) - 2)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("", *(COLUMNS.get(option, option.removeprefix("--")) for option in options)):
        table.add_column(name, overflow="fold")
    routed = _routed(alive)
    qualities = [name for name in QUALITIES if any(QUALITIES[name](row) for row in alive)]
    for name in ("cycles", "LUT4", "mult.", "RAM", *(["MHz"] if routed else []), *qualities, "frames/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in alive[:room]:
        cells = row.cells
        mark = "◆" if row.knee else "•" if row.best else " "
        numbers = [
            "" if row.interval is None else f"{row.interval:,}",
            *(["", "", ""] if cells is None else [f"{cells.lut:,}", f"{cells.dsp:,}", f"{cells.bram:,}"]),
            *([] if not routed else ["" if row.fmax_mhz is None else f"{row.fmax_mhz:.1f}"]),
            *(QUALITIES[name](row) for name in qualities),
            "" if row.frames_per_second is None else figures(row.frames_per_second, 3),
        ]
        table.add_row(*map(Text, (mark, *_values(row, options), *numbers)), style="" if row.best else "dim")
    hidden = len(alive) - room
    more = [Text(f"{hidden} more", "dim")] if hidden > 0 else []
    return Group(*([table] if alive else []), *more, *below)


def distinguishing(rows: Sequence[ExploreRow]) -> list[str]:
    """Return the options in which rows differ; the board where they do not, so that a row has a name."""
    choices = [_settings(row) for row in rows]
    names = dict.fromkeys(name for choice in choices for name in choice)
    return [name for name in names if len({choice.get(name) for choice in choices}) > 1] or [BOARD]


def _settings(row: ExploreRow) -> dict[str, str]:
    words = row.choice.arguments()
    return dict(zip(words[::2], words[1::2], strict=True))


def _values(row: ExploreRow, options: Sequence[str]) -> list[str]:
    settings = _settings(row)
    return [settings.get(option, DEFAULTS.get(option, "-")) for option in options]


def _below(rows: Sequence[ExploreRow], options: Sequence[str]) -> list[Text]:
    """Return lines such as ``refused: too few lanes: hx8k 2; icebreaker 2``."""
    outcomes: dict[str, list[str]] = {}
    for row in rows:
        if said(row):
            outcomes.setdefault(said(row), []).append(" ".join(_values(row, options)))
    lines = []
    for outcome, names in outcomes.items():
        others = len(names) - MAX_NAMED
        all_named = "; ".join(names[:MAX_NAMED]) + (f"; {others} more" if others > 0 else "")
        lines.append(Text(f"{outcome}: {all_named}", "dim"))
    return lines


def best_commands(rows: Sequence[ExploreRow]) -> Text:
    """Return the best_commands that build the rows on the Pareto front."""
    best = [row for row in ordered(rows) if row.best]
    lines = [f"{'◆' if row.knee else '•'} {row.command}" for row in best]
    return Text("\n".join(lines))


def effort(result: Explored) -> Text:
    """Return the numbers of choices and of stages that were run or found in the store, and the seconds."""
    stages = ", ".join(f"{count} {stage}" for stage, count in result.tally.run.items()) or "nothing run"
    stored = sum(result.tally.cached.values())
    return Text(f"{len(result.rows)} choices: {stages}; {stored} in the store; {result.seconds:.0f} s", "dim")
