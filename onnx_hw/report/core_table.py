"""Table of the cores of a design: the columns, once for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from onnx_hw.ops.folding import spelled
from onnx_hw.report.model import CoreSection, DesignSection, Fifo
from onnx_hw.report.netlist_sections import ChipActivity, CoreNetActivity, Synthesis, SynthesizedCore

Cell = int | float | str | None
"""Content of a cell; None for an empty one."""


@dataclass(frozen=True)
class CoreRow:
    """Row of the table.

    Attributes:
        core: what the report says about the core.
        fifos: the FIFOs behind it, whose costs synthesis counts with it.
        synthesized: what synthesis counted; None where that is unknown.
        share: part of the interval in which the core is at work, 0..1.
        is_bottleneck: whether it sets the interval.
        activity: changes of its nets; None where the netlist was not simulated.
    """

    core: CoreSection
    fifos: tuple[Fifo, ...]
    synthesized: SynthesizedCore | None
    share: float
    is_bottleneck: bool
    activity: CoreNetActivity | None = None


@dataclass(frozen=True)
class CoreTable:
    """Rows of the table, and the design that they are the parts of.

    Attributes:
        is_counted: whether synthesis counted the cells core by core.
        is_simulated: whether the netlist was simulated, and the changes of its nets counted.
    """

    design: DesignSection
    rows: tuple[CoreRow, ...]
    is_counted: bool
    is_simulated: bool = False


class CellFormat(StrEnum):
    """How a cell is shown."""

    TEXT = "text"
    SIZES = "sizes"  # such as 1×4; to the right on the terminal, where numbers follow
    NUMBER = "number"  # to the right, in groups of three digits
    BAR = "bar"  # of a share, 0..1; on the page only


@dataclass(frozen=True)
class CoreColumn:
    """Column of the table; the name of the core, which heads a row, is not one.

    Attributes:
        terminal: heading on the terminal; None where the column is not shown there.
        page: heading on the page; None where the column is not shown there.
        value: content of a core's cell.
        total: content of the cell below all cores; None for an empty one.
        format: how its cells are shown.
        is_counted: shown only where synthesis counted the cells core by core.
        is_simulated: shown only where the netlist was simulated.
        is_optional: left out on a narrow terminal.
    """

    terminal: str | None
    page: str | None
    value: Callable[[CoreRow], Cell]
    total: Callable[[CoreTable], Cell] | None = None
    format: CellFormat = CellFormat.NUMBER
    is_counted: bool = False
    is_simulated: bool = False
    is_optional: bool = False

    def cell(self, row: CoreRow) -> Cell:
        """Return the content of a core's cell; numbers in groups of three digits are texts."""
        return self._formatted(self.value(row))

    def total_cell(self, table: CoreTable) -> Cell:
        """Return the content of the cell below all cores, as ``cell`` does."""
        return "" if self.total is None else self._formatted(self.total(table))

    def _formatted(self, content: Cell) -> Cell:
        if self.format is CellFormat.BAR:
            return content
        if isinstance(content, int):
            return f"{content:,}"
        return "" if content is None else content


def core_table(
    design: DesignSection, synthesis: Synthesis | None = None, activity: ChipActivity | None = None
) -> CoreTable:
    """Return the table of a design's cores.

    Args:
        synthesis: what synthesis counted; None before it.
        activity: changes of nets; None where the netlist was not simulated.
    """
    active = {core.name: core for core in (activity.cores if activity is not None else ())}
    counted = {core.name: core for core in (synthesis.cores if synthesis is not None else ())}
    fifos = {fifo.edge: fifo for fifo in design.fifos}
    pacing = design.pacing_core
    rows = tuple(
        CoreRow(
            core,
            tuple(fifos[tensor] for tensor in core.outputs if tensor in fifos),
            counted.get(core.name),
            core.cycles / design.interval_cycles,
            core is pacing,
            active.get(core.name),
        )
        for core in design.nodes
    )
    return CoreTable(design, rows, bool(counted), bool(active))


def page_columns(table: CoreTable) -> tuple[CoreColumn, ...]:
    """Return the columns that the page shows."""
    known = {"is_counted": table.is_counted, "is_simulated": table.is_simulated}
    return tuple(
        column
        for column in COLUMNS
        if column.page is not None and all(there or not getattr(column, name) for name, there in known.items())
    )


def terminal_columns(*, optional: bool) -> tuple[CoreColumn, ...]:
    """Return the columns that the terminal shows; ``optional`` says whether it has room for optional ones."""
    return tuple(c for c in COLUMNS if c.terminal is not None and (optional or not c.is_optional))


def folding_in_words(core: CoreSection) -> str:
    """Return the folding of a core and, where look-up tables make the products, that they do."""
    return spelled(core.folding) + (f", in {core.multiplier}" if core.multiplier else "")


def _cost(name: str, terminal: str, page: str, counted: str) -> tuple[CoreColumn, CoreColumn]:
    """Return the columns of one resource: of the core alone on the terminal, with its FIFOs on the page.

    Args:
        name: attribute of ``CoreSection`` and ``Fifo``.
        terminal, page: headings.
        counted: attribute of ``SynthesizedCore``.
    """

    def alone(row: CoreRow) -> int:
        return int(getattr(row.core, name))

    def with_fifos(row: CoreRow) -> int:
        return alone(row) + sum(getattr(fifo, name, 0) for fifo in row.fifos)

    def counted_of(table: CoreTable) -> int | None:
        return sum(getattr(row.synthesized, counted) for row in table.rows if row.synthesized is not None)

    def cell(row: CoreRow) -> str:
        return _estimate(with_fifos(row), getattr(row.synthesized, counted, None))

    def total(table: CoreTable) -> str:
        return _estimate(sum(map(with_fifos, table.rows)), counted_of(table) if table.is_counted else None)

    return (
        CoreColumn(terminal, None, alone, lambda table: sum(map(alone, table.rows))),
        CoreColumn(None, page, cell, total),
    )


def _estimate(estimated: int, counted: int | None) -> str:
    """Return an estimate, and behind a stroke what was counted."""
    return f"{estimated:,}" if counted is None else f"{estimated:,} / {counted:,}"


def _flip_flops(table: CoreTable) -> int:
    return sum(row.synthesized.ff for row in table.rows if row.synthesized is not None)


def _percent(rows: Iterable[CoreRow]) -> str:
    """Return the share of some cores in the changes of all nets."""
    return f"{sum(row.activity.share for row in rows if row.activity is not None):.1%}"


COLUMNS = (
    CoreColumn("operator", "operator", lambda row: row.core.operator, format=CellFormat.TEXT, is_optional=True),
    CoreColumn("fold", "folding", lambda row: folding_in_words(row.core), format=CellFormat.SIZES),
    CoreColumn("cycles", "cycles", lambda row: row.core.cycles, lambda table: table.design.interval_cycles),
    CoreColumn(None, "at work", lambda row: row.share, format=CellFormat.BAR),
    CoreColumn(None, "", lambda row: f"{row.share:.0%}"),
    CoreColumn("lanes", "lanes", lambda row: row.core.lanes, lambda table: table.design.lanes),
    *_cost("dsp", "DSP", "multipliers", "dsp"),
    *_cost("lut", "LUT", "LUT4", "lut4"),
    *_cost("bram", "BRAM", "block RAMs", "bram"),
    CoreColumn(
        None, "flip-flops", lambda row: row.synthesized.ff if row.synthesized else None, _flip_flops, is_counted=True
    ),
    CoreColumn(None, "activity", lambda row: _percent([row]), lambda table: _percent(table.rows), is_simulated=True),
)
"""All columns, in their order. A new one is one line here."""
