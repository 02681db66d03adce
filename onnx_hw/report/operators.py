"""The table of ONNX operators with their fate in hardware, as ``onnx-hw ops`` prints it.

``python -m onnx_hw.report.operators docs`` writes it again into ``docs/operators.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from onnx_hw.onnx.operators.table import markdown, rows
from onnx_hw.quantize.lower import LOWERINGS

TABLE_FILE = "operators.md"

INTRODUCTION = """\
# Operators

The reference (`onnx-hw run --engine reference`) computes an operator in numpy, as ONNX defines it. Hardware is what can
be part of a circuit; other operators may still stand before the first or after the last tensor of the circuit, where
the host computes them, unless they multiply and accumulate. This is what `onnx-hw ops` prints; the file is generated
by `python -m onnx_hw.report.operators docs`.
"""


def operator_table() -> str:
    """The table, Markdown. The first paragraph of a lowering's docstring states its limits, if it has any."""
    hardware = {}
    for key, lowering in LOWERINGS.items():
        limits = " ".join((lowering.__doc__ or "").split("\n\n")[0].split())
        hardware[key] = f"yes: {limits}" if limits else "yes"
    return markdown(rows(), hardware)


def write(folder: Path) -> None:
    """Write the table, with an introduction, into ``folder``."""
    (folder / TABLE_FILE).write_text(f"{INTRODUCTION}\n{operator_table()}", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
