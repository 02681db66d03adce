"""Table of ONNX operators and their support in hardware, as ``onnx-hw ops`` prints it.

``python -m onnx_hw.report.operator_table docs`` writes it again into ``docs/operators.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from onnx_hw.lower.ops import LOWERINGS
from onnx_hw.onnx.canonicalize import (
    compositions,
    decompose_classical,
    decompose_dynamic_quantization,
    decompose_fused,
)
from onnx_hw.onnx.canonicalize.decompose_fused import DOMAIN
from onnx_hw.onnx.evaluate import unroll_control_flow
from onnx_hw.onnx.operators import operators
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS, Effect
from onnx_hw.onnx.operators.qonnx import CHANNELS_LAST
from onnx_hw.onnx.operators.registry import facts_of_operator
from onnx_hw.onnx.operators.table import markdown, rows

TABLE_FILE = "operators.md"

INTRODUCTION = """\
# Operators

The reference (`onnx-hw run --engine reference`) computes an operator in numpy, as ONNX defines it. Hardware is what can
be part of a circuit; other operators may still stand before the first or after the last tensor of the circuit, where
the host computes them, unless they multiply and accumulate. This is what `onnx-hw ops` prints; the file is generated
by `python -m onnx_hw.report.operator_table docs`.
"""


def operator_table() -> str:
    """Return the table in Markdown. The first paragraph of a lowering's docstring states its limits, if it has any."""
    hardware = {key: f"yes: {meaning}" for key, meaning in _decomposed().items() if meaning}
    for key, lowering in LOWERINGS.items():
        limits = " ".join((lowering.__doc__ or "").split("\n\n")[0].split())
        hardware[key] = f"yes. {limits}" if limits else "yes"
    return markdown(rows(), hardware)


def _decomposed() -> dict[tuple[str, str], str]:
    """Return the meanings of operators that are replaced by others before lowering, by domain and name."""
    parts = (compositions, decompose_classical, decompose_dynamic_quantization, decompose_fused, unroll_control_flow)
    meanings = {operator: meaning for part in parts for operator, meaning in part.MEANINGS.items()}
    meanings[DOMAIN, "MatMulNBits"] = "as MatMul with constant weights"
    for row in operators():
        if row.domain == CHANNELS_LAST:
            meanings[row.domain, row.op_type] = f"as {row.op_type} between Transposes"
        facts = facts_of_operator(row.domain, row.op_type)
        if facts.means is not None:
            meanings[row.domain, row.op_type] = f"as {facts.means.operator[0]} between integers"
        elif facts.takes_integers and facts.effect is Effect.JOINS:
            meanings[row.domain, row.op_type] = "as Concat between integers"
        elif row.domain and facts.effect in SCALE_EFFECTS:
            meanings[row.domain, row.op_type] = "as the one of ONNX"
        elif facts.of_no_data:
            meanings[row.domain, row.op_type] = "as a constant, before hardware is chosen"
    return meanings


def write(folder: Path) -> None:
    """Write the table, with an introduction, into ``folder``."""
    (folder / TABLE_FILE).write_text(f"{INTRODUCTION}\n{operator_table()}", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
