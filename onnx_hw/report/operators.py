"""The table of ONNX operators, generated from the registries: what ``onnx-hw ops`` prints and ``docs/`` holds.

``python -m onnx_hw.report.operators DOCS`` writes it into a folder again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from onnx_hw.onnx.operators import Operator, operators
from onnx_hw.quantize.lower import LOWERINGS

TABLE_FILE = "operators.md"

INTRODUCTION = """\
# Operators

*Versions* are the opset versions at which ONNX gave the operator another definition; each holds until the next. The
*reference* (`onnx-hw run --engine reference`) computes every operator of this table. *Hardware* says whether the
operator can be part of a circuit; what cannot may still stand before the first or after the last circuit tensor, where
the host computes it. Generated: `python -m onnx_hw.report.operators docs`.
"""


def operator_table() -> str:
    """Introduction and table, Markdown."""
    rows = list(_rows())
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    header, *body = (
        "| " + " | ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) + " |" for row in rows
    )
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join((INTRODUCTION, header, rule, *body)) + "\n"


def _rows() -> Iterator[tuple[str, ...]]:
    yield "operator", "versions", "reference", "hardware"
    for (domain, op_type), same in groupby(operators(), key=lambda row: (row.domain, row.op_type)):
        name = f"{domain}.{op_type}" if domain else op_type
        yield name, _versions(same), "yes", _hardware(domain, op_type)


def _versions(same: Iterator[Operator]) -> str:
    return ", ".join(str(version) for version in sorted({version for row in same for version in row.versions}))


def _hardware(domain: str, op_type: str) -> str:
    """``yes``, with the limits that the first sentence of the lowering's docstring states."""
    lowering = LOWERINGS.get(op_type) if domain == "" else None
    if lowering is None:
        return ""
    limits = (lowering.__doc__ or "").strip().split("\n\n")[0]
    return f"yes: {' '.join(limits.split())}" if limits else "yes"


def write(folder: Path) -> None:
    """Write the table into ``folder``."""
    (folder / TABLE_FILE).write_text(operator_table(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
