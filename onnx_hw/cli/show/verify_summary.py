"""What ``onnx-hw verify`` found, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from onnx_hw.report.fact import Fact

if TYPE_CHECKING:
    from onnx_hw.commands.verify import Verified


def shown(found: Verified) -> Group:
    """What was compared, how fast, and how many answers were right."""
    of = f" ({found.samples:,} samples, again and again)" if 0 < found.samples < found.frames else ""
    of = " (random)" if not found.samples else of
    rate = found.frames / found.seconds if found.seconds else 0.0
    told = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    runs = "one run" if found.runs == 1 else f"{found.runs:,} runs"
    facts = [
        Fact("proof", Text(f"{found.values:,} values and {found.firings:,} firings, 0 wrong, in {runs}")),
        Fact("frames", Text(f"{found.frames:,}{of}, {told} a second, {found.engine}")),
    ]
    if found.labelled:
        golden, circuit = found.golden_right / found.labelled, found.circuit_right / found.labelled
        said = f"golden {golden:.2%}, circuit {circuit:.2%} of {found.labelled:,} samples"
        facts.append(Fact("accuracy", Text(said)))
    return Group(*facts)
