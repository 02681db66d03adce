"""Files of an exploration: ``explore.json`` and ``explore.html``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onnx_hw import __version__
from onnx_hw.commands.explore.row import ENDED, ExploreRow, State
from onnx_hw.messages.html import render
from onnx_hw.messages.text import to_json

if TYPE_CHECKING:
    from onnx_hw.commands.explore.result import Explored
    from onnx_hw.runtime.build_folder import BuildFolder


DATA, PAGE = "explore.json", "explore.html"


def write_explored(made: Explored, model: str, folder: BuildFolder) -> None:
    """Write both files.

    Raises:
        UserError: the folder cannot be written.
    """
    folder.write(DATA, as_json(made, model))
    folder.write(PAGE, page(made, model))


def as_json(made: Explored, model: str) -> str:
    """Return the text of ``explore.json``: every row with its command, cells, clock and bitstream."""
    rows = []
    for row in made.rows:
        data = asdict(row)
        choice, folding = data["choice"], row.choice.folding
        del choice["scheduling"]
        choice |= row.choice.scheduling.numbers() | {"folding": None if folding is None else str(folding)}
        rows.append(data)
    facts = {"model": model, "onnx-hw": __version__, "seconds": round(made.seconds, 3), "tasks": asdict(made.tally)}
    return to_json({**facts, "rows": rows})


def ordered(rows: Sequence[ExploreRow]) -> list[ExploreRow]:
    """Return the rows with the best first: the front, routed rows, rows under way, rows that have ended."""

    def key(row: ExploreRow) -> tuple[Any, ...]:
        rate = row.frames_per_second or 0.0
        return not row.best, row.state in ENDED, row.fmax_mhz is None, -rate, row.number

    return sorted(rows, key=key)


def said(row: ExploreRow) -> str:
    """Return how far a row has come, in few words."""
    if row.why:
        return f"{row.state}: {row.why}"
    missed = row.fmax_mhz is not None and row.frames_per_second is None
    if missed:
        return f"misses {row.target_mhz:g} MHz"
    return "" if row.state in (State.PACKED, State.ROUTED) else row.state


_WAYS = (("lut", "LUT4"), ("dsp", "multipliers"), ("bram", "block RAMs"))


def page(made: Explored, model: str) -> str:
    """Return the text of ``explore.html``."""
    done = [row for row in made.rows if row.frames_per_second and row.cells]
    pictures = [_picture(done, field, name) for field, name in _WAYS] if done else []
    rows = [(row, said(row)) for row in ordered(made.rows)]
    return render("explore.html", model=model, made=made, rows=rows, pictures=pictures, routed=_routed(done))


def _routed(rows: Sequence[ExploreRow]) -> bool:
    return any(row.fmax_mhz is not None for row in rows)


WIDE, HIGH, EDGE = 320, 200, 12


def _picture(rows: Sequence[ExploreRow], field: str, name: str) -> dict[str, Any]:
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
