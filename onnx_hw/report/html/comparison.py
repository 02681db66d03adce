"""Comparison of two builds: their figures, and their cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from onnx_hw.messages.html import duration, render
from onnx_hw.messages.text import abridged, printable
from onnx_hw.ops.folding import spelled
from onnx_hw.report.html.page import verdict
from onnx_hw.report.model import Report
from onnx_hw.report.utilization import usage

PAGE = "compared.html"
MAX_NAME = 40  # characters on the terminal


@dataclass(frozen=True)
class ComparisonLine:
    """ComparisonLine about both builds; a text is empty where a build has no such figure."""

    what: str
    one: str
    other: str

    @property
    def differs(self) -> bool:
        return self.one != self.other


@dataclass(frozen=True)
class BuildComparison:
    """Comparison of two builds.

    Attributes:
        names: names of their folders.
        figures: figures of the whole builds.
        cores: folding and cycles of every core of either.
    """

    names: tuple[str, str]
    figures: tuple[ComparisonLine, ...]
    cores: tuple[ComparisonLine, ...]

    def page(self) -> str:
        """Return the comparison as HTML, well-formed and without references to other files."""
        return render("comparison.html", comparison=self, scripts=())

    def shown(self) -> Group:
        """Return the comparison for the terminal."""
        tables = []
        for head, lines in (("", self.figures), ("core", self.cores)):
            table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 1), header_style="bold")
            for heading in (head, *self.names):
                table.add_column(printable(heading), overflow="fold")
            for line in lines:
                name = Text(abridged(line.what, MAX_NAME), "bold" if line.differs else "")
                table.add_row(name, Text(printable(line.one)), Text(printable(line.other)))
            tables.append(table)
        return Group(tables[0], Text(""), tables[1]) if self.cores else Group(tables[0])


def compare(one: Report, other: Report, names: tuple[str, str]) -> BuildComparison:
    """Compare all figures and cores of either build, in the order of the first."""
    return BuildComparison(
        names, _lines(dict(figures(one)), dict(figures(other))), _lines(dict(_cores(one)), dict(_cores(other)))
    )


def figures(report: Report) -> Iterator[tuple[str, str]]:
    """Yield name and text of every figure of a build."""
    yield "model", report.model.name
    yield "board", f"{report.board.name}, {report.board.device}"
    yield "verdict", verdict(report).sentence
    design, synthesis = report.design, report.synthesis
    if design is not None:
        yield "interval", f"{design.interval_cycles:,} cycles"
        yield "speed", f"{design.frames_per_second:,.0f} frames/s at {design.clock_mhz:g} MHz"
        if report.serial is not None:
            yield "through the link", f"{report.serial.delivered_frames_per_second:,.0f} frames/s"
        yield "first result", duration(design.latency_cycles / design.clock_mhz * 1e-6)
        yield "lanes", f"{design.lanes:,}, busy {design.mac_efficiency:.0%}"
        yield "cores", f"{len(design.nodes):,}"
        yield "bottleneck", design.bottleneck.name
    estimated = "" if synthesis is not None else ", estimated"
    for use in usage(report):
        yield use.words, f"{use.used:,} of {use.available:,} ({use.share:.0%}{estimated})"
    if synthesis is not None and synthesis.fmax_mhz is not None:
        passed = "PASS" if synthesis.timing_met else "FAIL"
        yield (
            "clock",
            f"{synthesis.fmax_mhz:.1f} MHz, {passed} at {synthesis.target_mhz:g} MHz",
        )
    if report.accuracy is not None:
        yield "accuracy", f"{report.accuracy.golden:.2%} of {report.accuracy.samples:,} samples"
    if report.seconds:
        yield "built in", f"{sum(report.seconds.values()):,.1f} s"
    yield "onnx-hw", report.tools.get("onnx-hw", "")
    yield "digest", report.digest[:16]


def _cores(report: Report) -> Iterator[tuple[str, str]]:
    for core in report.design.nodes if report.design is not None else ():
        yield core.name, f"{spelled(core.folding)}, {core.cycles:,} cycles, {core.lanes:,} lanes, {core.lut:,} LUT4"


def _lines(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[ComparisonLine, ...]:
    return tuple(ComparisonLine(what, one.get(what, ""), other.get(what, "")) for what in {**one, **other})
