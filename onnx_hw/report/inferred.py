"""What came back from a board, on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from rich.text import Text

from onnx_hw.report.outputs import described

if TYPE_CHECKING:
    from onnx_hw.infer import Inferred


def shown(made: Inferred) -> Text:
    """The outputs, the cycles that the chip counted, and what went wrong on the wire."""
    faults = made.faults
    lines = [
        f"{made.frames:,} frames{', each as golden has it' if made.checked else ''}",
        f"cycles from the first beat in to the last beat out: {_range(made.latencies)}",
        f"cycles from frame to frame: {_range(made.intervals)}",
    ]
    if faults.broken or faults.missed or faults.silent:
        lines.append(
            f"on the wire: {faults.broken:,} broken packets, {faults.missed:,} missed, {faults.silent:,} silences, "
            f"{faults.resent:,} sent again; all of it was mended"
        )
    text = described(made.outputs)
    return text.append("\n" if text.plain else "").append("\n".join(lines))


def _range(cycles: Sequence[int]) -> str:
    if not cycles:
        return "not counted"
    low, high = min(cycles), max(cycles)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, half of them below {median(cycles):,.0f}"
