"""What came of many builds: ``explore.json``, ``explore.html`` and the table on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from onnx_hw import __version__
from onnx_hw.explore.row import ENDED, Row, State
from onnx_hw.spelling import to_json
from onnx_hw.templates import render

if TYPE_CHECKING:
    from onnx_hw.build_folder import BuildFolder
    from onnx_hw.explore_model import Explored

DATA, PAGE = "explore.json", "explore.html"

BOARD = "--board"
SHORT = {BOARD: "board", "--multipliers": "lanes", "--clock": "clock"} | {
    f"--{name}": name for name in ("fps", "folding", "bits", "seed")
}
"""What a column of the terminal is called."""
LEFT_OUT = {"--seed": "1"}
"""What an option is where a choice does not say it."""
NAMED = 6  # choices of which the same is said, before the others are counted

_WAYS = (("lut", "LUT4"), ("dsp", "multipliers"), ("bram", "block RAMs"))


def write_explored(made: Explored, model: str, folder: BuildFolder) -> None:
    """Write both files.

    Raises:
        UserError: the folder cannot be written.
    """
    folder.write(DATA, as_json(made, model))
    folder.write(PAGE, page(made, model))


def as_json(made: Explored, model: str) -> str:
    """The text of ``explore.json``: every row with its command, cells, clock and bitstream."""
    rows = []
    for row in made.rows:
        data = asdict(row)
        folding = row.choice.folding
        data["choice"]["folding"] = None if folding is None else str(folding)
        rows.append(data)
    facts = {"model": model, "onnx-hw": __version__, "seconds": round(made.seconds, 3), "tasks": asdict(made.tally)}
    return to_json({**facts, "rows": rows})


def ordered(rows: Sequence[Row]) -> list[Row]:
    """The best first: those in front, what was routed, what is on its way, what has ended."""

    def key(row: Row) -> tuple[Any, ...]:
        rate = row.frames_per_second or 0.0
        return not row.best, row.state in ENDED, row.fmax_mhz is None, -rate, row.number

    return sorted(rows, key=key)


def shown(rows: Sequence[Row], most: int | None = None) -> Group:
    """The rows as a table, of each what distinguishes it; dim what is not in front, with a mark at the knee.

    Rows that have ended, or are not ready, are named below it, those together of which the same is to say.

    Args:
        most: lines that there is place for.
    """
    rows, options = ordered(rows), distinguishing(rows)
    below = _below(rows, options)
    alive = [row for row in rows if row.state not in ENDED]
    room = len(alive) if most is None else max(1, most - len(below) - 2)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("", *(SHORT.get(option, option) for option in options)):
        table.add_column(name, overflow="fold")
    routed = _routed(alive)
    for name in ("cycles", "LUT4", "mult.", "RAM", *(["MHz"] if routed else []), "frames/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in alive[:room]:
        cells = row.cells
        mark = "◆" if row.knee else "•" if row.best else " "
        numbers = [
            "" if row.interval is None else f"{row.interval:,}",
            *(["", "", ""] if cells is None else [f"{cells.lut:,}", f"{cells.dsp:,}", f"{cells.bram:,}"]),
            *([] if not routed else ["" if row.fmax_mhz is None else f"{row.fmax_mhz:.1f}"]),
            "" if row.frames_per_second is None else f"{row.frames_per_second:,.0f}",
        ]
        table.add_row(*map(Text, (mark, *_values(row, options), *numbers)), style="" if row.best else "dim")
    hidden = len(alive) - room
    more = [Text(f"{hidden} more", "dim")] if hidden > 0 else []
    return Group(*([table] if alive else []), *more, *below)


def distinguishing(rows: Sequence[Row]) -> list[str]:
    """The options in which rows differ; the board where they do not, so that a row has a name."""
    choices = [_settings(row) for row in rows]
    names = dict.fromkeys(name for choice in choices for name in choice)
    return [name for name in names if len({choice.get(name) for choice in choices}) > 1] or [BOARD]


def _settings(row: Row) -> dict[str, str]:
    words = row.choice.arguments()
    return dict(zip(words[::2], words[1::2], strict=True))


def _values(row: Row, options: Sequence[str]) -> list[str]:
    settings = _settings(row)
    return [settings.get(option, LEFT_OUT.get(option, "-")) for option in options]


def _below(rows: Sequence[Row], options: Sequence[str]) -> list[Text]:
    """``refused: too few lanes: hx8k 2; icebreaker 2``"""
    told: dict[str, list[str]] = {}
    for row in rows:
        if said(row):
            told.setdefault(said(row), []).append(" ".join(_values(row, options)))
    lines = []
    for what, names in told.items():
        others = len(names) - NAMED
        all_named = "; ".join(names[:NAMED]) + (f"; {others} more" if others > 0 else "")
        lines.append(Text(f"{what}: {all_named}", "dim"))
    return lines


def said(row: Row) -> str:
    """How far a row has come, in few words."""
    if row.why:
        return f"{row.state}: {row.why}"
    missed = row.fmax_mhz is not None and row.frames_per_second is None
    if missed:
        return f"misses {row.target_mhz:g} MHz"
    return "" if row.state in (State.PACKED, State.ROUTED) else row.state


def commands(rows: Sequence[Row]) -> Text:
    """The lines that build what is in front."""
    best = [row for row in ordered(rows) if row.best]
    lines = [f"{'◆' if row.knee else '•'} {row.command}" for row in best]
    return Text("\n".join(lines))


def counted(made: Explored) -> Text:
    """What it took."""
    runs = made.tally.run
    told = ", ".join(f"{count} {stage}" for stage, count in runs.items()) or "nothing run"
    known = sum(made.tally.cached.values())
    return Text(f"{len(made.rows)} choices: {told}; {known} in the store; {made.seconds:.0f} s", "dim")


def page(made: Explored, model: str) -> str:
    """The text of ``explore.html``."""
    done = [row for row in made.rows if row.frames_per_second and row.cells]
    pictures = [_picture(done, field, name) for field, name in _WAYS] if done else []
    rows = [(row, said(row)) for row in ordered(made.rows)]
    return render("explore.html", model=model, made=made, rows=rows, pictures=pictures, routed=_routed(done))


def _routed(rows: Sequence[Row]) -> bool:
    return any(row.fmax_mhz is not None for row in rows)


WIDE, HIGH, EDGE = 320, 200, 12


def _picture(rows: Sequence[Row], field: str, name: str) -> dict[str, Any]:
    """Points of frames a second over cells of one kind, axes from nothing to a little more than the most."""
    across = [getattr(row.cells, field) for row in rows]
    up = [row.frames_per_second or 0.0 for row in rows]
    most_across, most_up = max(max(across), 1) * 1.05, max(max(up), 1e-9) * 1.05
    points = [
        {
            "x": round(EDGE + (WIDE - 2 * EDGE) * x / most_across, 1),
            "y": round(HIGH - EDGE - (HIGH - 2 * EDGE) * y / most_up, 1),
            "row": row,
            "said": f"{row.choice}: {x:,} {name}, {y:,.0f} frames a second",
        }
        for row, x, y in zip(rows, across, up, strict=True)
    ]
    points.sort(key=lambda point: point["row"].best)
    return {"name": name, "points": points, "across": max(across), "up": max(up), "wide": WIDE, "high": HIGH}
