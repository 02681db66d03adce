"""The report on the terminal: cores with the bottleneck marked, resource bars, the timing verdict.

Everything is understandable without colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from onnx_hw.ops.folding import spelled
from onnx_hw.report.report import Accuracy, Design, Report, Synthesis
from onnx_hw.spelling import abridged, printable

BAR = 10  # characters
LONGEST_CORE = 120  # characters of its name


def summary(report: Report, folder: Path) -> Group:
    """What is printed below the stage lines of a build written to ``folder``."""
    return Group(*(part for block in _blocks(report, folder) for part in (Text(""), block)))


def _blocks(report: Report, folder: Path) -> Iterator[RenderableType]:
    if report.design is not None:
        yield cores(report.design)
        yield resources(report)
    facts = []
    if report.accuracy is not None:
        facts.append(accuracy(report.accuracy))
    if report.synthesis is not None and report.synthesis.fmax_mhz is not None:
        facts.append(verdict(report.synthesis))
    if report.design is not None:
        facts.append(speed(report.design))
    facts.extend(Text(printable(f" {kind:<10} {folder / path}")) for kind, path in report.files.items())
    if facts:
        yield Group(*facts)


def cores(design: Design) -> Table:
    """One row a core, the busiest one marked, and a total."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 1), header_style="bold")
    table.add_column("node", overflow="fold")
    table.add_column("operator", no_wrap=True)
    for name in ("fold", "cycles", "lanes", "DSP", "LUT", "BRAM"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    busiest = design.bottleneck
    for core in design.nodes:
        numbers = (core.cycles, core.lanes, core.dsp, core.lut, core.bram)
        mark = Text("← bottleneck", "yellow") if core is busiest else Text("")
        table.add_row(
            Text(abridged(core.name, LONGEST_CORE)),
            Text(core.operator),
            spelled(core.folding),
            *(f"{number:,}" for number in numbers),
            mark,
        )
    nodes = design.nodes
    totals = (
        design.interval_cycles,
        design.lanes,
        sum(core.dsp for core in nodes),
        sum(core.lut for core in nodes),
        sum(core.bram for core in nodes),
    )
    table.add_row("total", "", "", *(f"{number:,}" for number in totals), "", style="bold")
    return table


def resources(report: Report) -> Group:
    """A bar for each resource that is used: of the synthesized circuit, else as estimated."""
    board, made, design = report.board, report.synthesis, report.design
    if made is not None:
        used = {"LUT4": made.lut4, "FF": made.ff, "DSP": made.dsp, "BRAM": made.bram}
    else:
        nodes = design.nodes if design is not None else ()
        fifos = design.fifos if design is not None else ()
        used = {
            "LUT4": sum(core.lut for core in nodes) + sum(fifo.lut for fifo in fifos),
            "DSP": sum(core.dsp for core in nodes),
            "BRAM": sum(core.bram for core in nodes) + sum(fifo.bram for fifo in fifos),
        }
    available = {"LUT4": board.lut4, "FF": board.ff, "DSP": board.dsp, "BRAM": board.bram}
    estimated = "" if made is not None else "  (estimated)"
    return Group(*(bar(name, count, available[name], estimated) for name, count in used.items() if count))


def bar(name: str, used: int, available: int, remark: str = "") -> Text:
    """`` LUT4   [=         ]   9 %   7,120 of 83,640``; full bars are red."""
    share = used / available if available else 1.0
    filled = min(BAR, max(1, round(share * BAR)))
    style = "red" if used > available else "yellow" if share > 0.9 else "green"
    line = Text(f" {name:<5} [")
    line.append("=" * filled, style)
    return line.append(f"{' ' * (BAR - filled)}] {share:>4.0%}  {used:>7,} of {available:,}{remark}")


def verdict(made: Synthesis) -> Text:
    """The clock that was reached, against the one that was wanted; only for a routed circuit."""
    passed = bool(made.timing_met)
    line = Text(f" clock      {made.fmax_mhz:.1f} MHz, ")
    line.append("PASS" if passed else "FAIL", "bold green" if passed else "bold red")
    return line.append(f" at {made.target_mhz:g} MHz")


def speed(design: Design) -> Text:
    """Frames per second and time to the first result at the clock the build aims at."""
    hertz = design.clock_mhz * 1e6
    asked = f" ({design.frames_per_second_asked:,g} asked)" if design.frames_per_second_asked is not None else ""
    return Text(
        f" speed      {design.frames_per_second:,.0f} frames/s{asked}, first result after "
        f"{_duration(design.latency_cycles / hertz)}, at {design.clock_mhz:g} MHz; "
        f"multipliers busy {design.mac_efficiency:.0%}"
    )


def accuracy(measured: Accuracy) -> Text:
    """Right answers of the model, of the integer network and of the circuit."""
    line = f" accuracy   model {measured.reference:.2%}, golden {measured.golden:.2%} of {measured.samples:,} samples"
    if measured.circuit is not None:
        line += f"; circuit {measured.circuit:.2%} of {measured.circuit_samples:,}"
    return Text(line)


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
