"""What came back from a board, on the terminal."""

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


def shown(made: Inferred) -> Text:
    """The outputs, the cycles that the chip counted, and what went wrong on the wire."""
    faults = made.faults
    lines = [
        f"{made.frames:,} frames{', each as golden has it' if made.checked else ''}",
        f"cycles from the first beat in to the last beat out: {_range(made.latencies)}",
        f"cycles from frame to frame: {_range(made.intervals)}",
    ]
    if made.timing is not None:
        lines.append(_timing(made.timing))
    if faults.broken or faults.missed or faults.silent:
        lines.append(
            f"on the wire: {faults.broken:,} broken packets, {faults.missed:,} missed, {faults.silent:,} silences, "
            f"{faults.resent:,} sent again; all of it was mended"
        )
    if made.checked:
        lines += ["", f"for {FORM}:", "", block(made)]
    text = described(made.outputs)
    return text.append("\n" if text.plain else "").append("\n".join(lines))


def _timing(seen: LinkTimesCheck) -> str:
    if seen.wrong:
        frame, cycles = seen.wrong[0]
        how = f"{abs(cycles):,} cycles {'later' if cycles > 0 else 'sooner'}"
        return (
            f"by the firing law: {len(seen.wrong):,} of the first {seen.frames:,} frames are NOT as predicted; frame "
            f"{frame:,} ended {how} than it can: is the clock's timing met? Then please report it"
        )
    bounds = f", {seen.frames - seen.exact:,} within bounds" if seen.exact < seen.frames else ""
    return (
        f"by the firing law: {seen.latency:,} cycles where a frame is alone; of the first {seen.frames:,} frames "
        f"{seen.exact:,} as predicted to the cycle{bounds}"
    )


def _range(cycles: Sequence[int]) -> str:
    if not cycles:
        return "not counted"
    low, high = min(cycles), max(cycles)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, half of them below {median(cycles):,.0f}"
