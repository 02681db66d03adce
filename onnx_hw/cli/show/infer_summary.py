"""Summary of ``onnx-hw infer`` on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from rich.text import Text

from onnx_hw.cli.show.outputs_table import described
from onnx_hw.cli.show.tried_on_board_form import FORM, block

if TYPE_CHECKING:
    from onnx_hw.commands.infer import Inferred
    from onnx_hw.timing.link_times import LinkTimesCheck


def shown(result: Inferred) -> Text:
    """Return the outputs, the cycles that the chip counted, and the faults on the wire."""
    faults = result.faults
    lines = [
        f"{result.frames:,} frames{', each equal to golden' if result.checked else ''}",
        f"cycles from the first beat in to the last beat out: {_range(result.latencies)}",
        f"cycles from frame to frame: {_range(result.intervals)}",
    ]
    if result.timing is not None:
        lines.append(_timing(result.timing))
    if faults.broken or faults.missed or faults.silent:
        lines.append(
            f"on the wire: {faults.broken:,} broken packets, {faults.missed:,} missed, {faults.silent:,} silences, "
            f"{faults.resent:,} sent again; all faults were corrected"
        )
    if result.checked:
        lines += ["", f"for {FORM}:", "", block(result)]
    text = described(result.outputs)
    return text.append("\n" if text.plain else "").append("\n".join(lines))


def _timing(check: LinkTimesCheck) -> str:
    if check.wrong:
        frame, cycles = check.wrong[0]
        how = f"{abs(cycles):,} cycles {'later' if cycles > 0 else 'sooner'}"
        return (
            f"by the firing law: {len(check.wrong):,} of the first {check.frames:,} frames are NOT as predicted; frame "
            f"{frame:,} ended {how} than possible; if the clock's timing is met, please report this"
        )
    bounds = f", {check.frames - check.exact:,} within bounds" if check.exact < check.frames else ""
    return (
        f"by the firing law: {check.latency:,} cycles for a frame alone; of the first {check.frames:,} frames "
        f"{check.exact:,} as predicted to the cycle{bounds}"
    )


def _range(cycles: Sequence[int]) -> str:
    if not cycles:
        return "not counted"
    low, high = min(cycles), max(cycles)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, half of them below {median(cycles):,.0f}"
