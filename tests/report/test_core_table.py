"""Columns of the table of cores that depend on what a build did."""

from __future__ import annotations

from onnx_hw.report.core_table import core_table, page_columns
from support.sample_report import FULL


def test_activity_is_a_column_where_the_netlist_was_simulated() -> None:
    assert FULL.design is not None
    table = core_table(FULL.design, FULL.synthesis, FULL.activity)
    (column,) = (column for column in page_columns(table) if column.page == "activity")
    assert [column.cell(row) for row in table.rows] == ["25.0%", "72.5%"]
    assert column.total_cell(table) == "97.5%"
    assert "activity" not in [column.page for column in page_columns(core_table(FULL.design, FULL.synthesis))]
