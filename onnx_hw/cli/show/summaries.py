"""Summaries of ``onnx-hw verify``, ``onnx-hw infer`` and ``onnx-hw update`` on the terminal."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from onnx_hw.cli.show.outputs_table import outputs_text
from onnx_hw.messages.version import __version__
from onnx_hw.report.fact import Fact

if TYPE_CHECKING:
    from onnx_hw.commands.infer import InferResult, Tried
    from onnx_hw.commands.self_test import BoardVerdict
    from onnx_hw.commands.update import UpdateResult
    from onnx_hw.commands.verify import VerifyResult
    from onnx_hw.timing.link_times import LinkTimesCheck
    from onnx_hw_link.session import Faults

FORM = "a new issue, `Tried on a board`"
SIMULATED = "sim"


def verify_summary(result: VerifyResult) -> Group:
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


def update_summary(result: UpdateResult) -> Group:
    """Return what was proven of new weights, and where they are."""
    report = result.report
    proven = "" if report.simulation is None else f"; {report.simulation.frames:,} frames simulated, 0 wrong"
    facts = [
        Fact(
            "weights",
            Text(f"{result.weight_bytes:,} bytes of {report.model.name}, in the circuit of the build{proven}"),
        )
    ]
    if not result.port:
        facts.append(Fact("board", Text(f"`onnx-hw infer {result.folder}` sends them before the first frame")))
    elif result.sent_bytes:
        facts.append(Fact("board", Text(f"sent to {result.port} in {result.seconds:.2g} s")))
    else:
        facts.append(Fact("board", Text(f"the chip at {result.port} has them already")))
    return Group(*facts)


def infer_summary(result: InferResult) -> Text:
    """Return the outputs, the cycles that the chip counted, and the faults on the wire."""
    faults = result.faults
    lines = [
        f"{result.frames:,} frames{', each equal to golden' if result.checked else ''}",
        f"cycles from the first beat in to the last beat out: {_range(result.latencies)}",
        f"cycles from frame to frame: {_range(result.intervals)}",
    ]
    if result.timing is not None:
        lines.append(_timing(result.timing))
    if result.in_c is not None:
        why = result.in_c.obstacle
        lines.append(f"the C header was not tried: {why}" if why else "the C header does the same")
    if faults.broken or faults.missed or faults.silent:
        lines.append(f"on the wire: {_wire(faults)}; all faults were corrected")
    if result.checked:
        lines += ["", f"for {FORM}:", "", tried_on_board(result)]
    text = outputs_text(result.outputs)
    return text.append("\n" if text.plain else "").append("\n".join(lines))


def _timing(check: LinkTimesCheck) -> str:
    if check.wrong:
        return f"by the firing law: {check.difference}; if the clock's timing is met, please report this"
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


def tried_on_board(result: InferResult) -> str:
    """Return lines of Markdown for the form, from a run that was compared with golden."""
    lines = [f"frames: {result.frames:,} of {result.frames:,} as golden"]
    if result.timing is not None:
        timing = result.timing
        bounds = f", {timing.frames - timing.exact:,} within bounds" if timing.exact < timing.frames else ""
        lines.append(f"cycles: {timing.exact:,} of {timing.frames:,} as predicted{bounds}, {_paces(result)}")
    return _for_form(result.device, "baud", result.faults, lines)


def _for_form(device: Tried, unit: str, faults: Faults, results: Sequence[str]) -> str:
    """Return lines of Markdown that describe where a build was run, and what came of it."""
    where = "simulated, no board" if device.port == SIMULATED else device.port
    lines = (
        f"board: {device.board}; its revision, and how it is connected: ...",
        f"onnx-hw {__version__}: {device.design} on {device.board}, design {device.digest}",
        f"port: {where}, {device.baud:,} {unit}; {platform.system()} on {platform.machine()}",
        *results,
        f"wire: {_wire(faults)}",
    )
    return "\n".join(["```", *lines, "```"])


def _wire(faults: Faults) -> str:
    return (
        f"{faults.broken:,} broken packets, {faults.missed:,} missed, {faults.silent:,} silences, "
        f"{faults.resent:,} sent again"
    )


def self_test_summary(verdict: BoardVerdict) -> Text:
    """Return the verdict of a board, and what to paste into the form."""
    result = verdict.result
    form = _for_form(verdict.device, "bit/s", result.faults, [f"self-test: {result.verdict}"])
    text = Text(result.verdict, "bold green" if result.passed else "bold red")
    return text.append(f"\n\nfor {FORM}:\n\n{form}", "default")


def _paces(result: InferResult) -> str:
    return f"{median(result.intervals):,.0f} from frame to frame" if result.intervals else "one frame alone"
