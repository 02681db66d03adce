"""Summary of ``onnx-hw verify`` on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from onnx_hw.report.fact import Fact

if TYPE_CHECKING:
    from onnx_hw.commands.verify import Verified


def shown(result: Verified) -> Group:
    """Return what was compared, how fast, and the share of right answers."""
    source = f" ({result.samples:,} samples, repeated)" if 0 < result.samples < result.frames else ""
    source = " (random)" if not result.samples else source
    rate = result.frames / result.seconds if result.seconds else 0.0
    shown_rate = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    runs = "one run" if result.runs == 1 else f"{result.runs:,} runs"
    facts = [
        Fact("proof", Text(f"{result.values:,} values and {result.firings:,} firings, 0 wrong, in {runs}")),
        Fact("frames", Text(f"{result.frames:,}{source}, {shown_rate} a second, {result.engine}")),
    ]
    if result.labelled:
        golden, circuit = result.golden_right / result.labelled, result.circuit_right / result.labelled
        shares = f"golden {golden:.2%}, circuit {circuit:.2%} of {result.labelled:,} samples"
        facts.append(Fact("accuracy", Text(shares)))
    return Group(*facts)
