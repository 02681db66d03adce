"""Files of an exploration: ``explore.json`` and ``explore.html``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onnx_hw.commands.explore.row import ENDED, ExploreRow, State
from onnx_hw.messages.html import figures, render
from onnx_hw.messages.text import to_json
from onnx_hw.messages.version import __version__

if TYPE_CHECKING:
    from onnx_hw.commands.explore.result import Explored
    from onnx_hw.runtime.build_folder import BuildFolder


DATA, PAGE = "explore.json", "explore.html"


def write_explored(made: Explored, model: str, folder: BuildFolder) -> None:
    """Write both files; raise ``UserError`` where the folder cannot be written."""
    folder.write(DATA, as_json(made, model))
    folder.write(PAGE, page(made, model))


def as_json(made: Explored, model: str) -> str:
    """Return the text of ``explore.json``: every row with its command, cells, clock and bitstream."""
    rows = []
    for row in made.rows:
        data = asdict(row)
        choice, folding = data["choice"], row.choice.folding
        del choice["scheduling"]
        choice |= (
            choice.pop("integers")
            | row.choice.scheduling.numbers()
            | {"folding": None if folding is None else str(folding)}
        )
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


@dataclass(frozen=True)
class Measure:
    """Figure of a row: a column of the page's table and, with a label, the horizontal axis of a plot.

    Attributes:
        heading: heading of the column.
        value: the figure of a row; None where it is unknown.
        label: label of the axis; empty for a figure without a plot.
        from_zero: whether the axis begins at 0.
        text: function from the figure to its text.
        is_optional: left out where no row has the figure.
    """

    heading: str
    value: Callable[[ExploreRow], float | None]
    label: str = ""
    from_zero: bool = True
    text: Callable[[float], str] = "{:,}".format
    is_optional: bool = False

    def cell(self, row: ExploreRow) -> str:
        """Return the text of a row's cell; empty where the figure is unknown."""
        value = self.value(row)
        return "" if value is None else self.text(value)


def _cells(kind: str) -> Callable[[ExploreRow], int | None]:
    return lambda row: None if row.cells is None else int(getattr(row.cells, kind))


MEASURES = (
    Measure("lanes", lambda row: row.lanes),
    Measure("cycles", lambda row: row.interval),
    Measure("latency, µs", lambda row: row.latency_us, "latency, µs", text="{:,.1f}".format, is_optional=True),
    Measure("LUT4", _cells("lut"), "LUT4"),
    Measure("flip-flops", _cells("ff")),
    Measure("multipliers", _cells("dsp"), "multipliers"),
    Measure("block RAMs", _cells("bram"), "block RAMs"),
    Measure("MHz", lambda row: row.fmax_mhz, text="{:.1f}".format, is_optional=True),
    Measure(
        "accuracy, %",
        lambda row: None if row.accuracy is None else 100 * row.accuracy,
        "accuracy, %",
        from_zero=False,
        text="{:.2f}".format,
        is_optional=True,
    ),
    Measure(
        "SQNR, dB",
        lambda row: row.sqnr_db,
        "signal to noise, dB",
        from_zero=False,
        text="{:.1f}".format,
        is_optional=True,
    ),
    Measure("frames/s", lambda row: row.frames_per_second, text=figures),
)
"""Figures of the page, in the order of the columns. A new one is one line here."""


def page(made: Explored, model: str) -> str:
    """Return the text of ``explore.html``, well-formed and without references to other files."""
    done = [row for row in made.rows if row.frames_per_second and row.cells]
    columns = [m for m in MEASURES if not m.is_optional or any(m.value(row) is not None for row in made.rows)]
    return render(
        "explore.html",
        model=model,
        made=made,
        rows=[(row, _settings(row), said(row)) for row in ordered(made.rows)],
        columns=columns,
        plotted=_plotted(done),
        routed=_routed(done),
        quality=_quality(done),
        scripts=("uPlot.iife.min.js", "page.js", "plots.js", "explore.js"),
    )


def _settings(row: ExploreRow) -> list[str]:
    """Return the options of a row's choice, each with its value."""
    words = row.choice.arguments()
    return [" ".join(pair) for pair in zip(words[::2], words[1::2], strict=True)]


def _routed(rows: Sequence[ExploreRow]) -> bool:
    return any(row.fmax_mhz is not None for row in rows)


def _quality(rows: Sequence[ExploreRow]) -> str:
    """Return what the Pareto front compares of the integers, as ``with_front`` does; empty where nothing is known."""
    if any(row.accuracy is not None for row in rows):
        return " and a higher accuracy"
    return " and less noise" if any(row.sqnr_db is not None for row in rows) else ""


def _distinguishes(measure: Measure, rows: Sequence[ExploreRow]) -> bool:
    """Return whether a plot over a figure shows anything: a cost other than 0, or at least two different values."""
    values = {measure.value(row) for row in rows} - {None}
    return bool(values - {0}) and (measure.from_zero or len(values) > 1)


def _plotted(rows: Sequence[ExploreRow]) -> dict[str, Any]:
    """Return the values of the plots: the axes that show anything, and a point per row."""
    axes = [m for m in MEASURES if m.label and _distinguishes(m, rows)]
    return {
        "axes": [{"key": m.heading, "label": m.label, "from_zero": m.from_zero} for m in axes],
        "rows": [
            {
                "number": row.number,
                "name": str(row.choice),
                "rate": row.frames_per_second,
                "best": row.best,
                "knee": row.knee,
                "values": {m.heading: m.value(row) for m in axes},
                "lines": [f"{m.heading}: {m.cell(row)}" for m in MEASURES if m.cell(row)],
            }
            for row in rows
        ],
    }
