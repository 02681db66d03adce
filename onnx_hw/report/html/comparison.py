"""Comparison of two builds: their figures, and their cores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from onnx_hw.messages.html import duration, frame_rate, render
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
        cores: folding and cycles of every core of either; cores whose names differ in a width are one line.
        losses: noise that tensors add to the outputs, of those that either report lists.
    """

    names: tuple[str, str]
    figures: tuple[ComparisonLine, ...]
    cores: tuple[ComparisonLine, ...]
    losses: tuple[ComparisonLine, ...] = ()

    @property
    def tables(self) -> tuple[tuple[str, str, tuple[ComparisonLine, ...]], ...]:
        """Tables that have lines: caption, heading of the first column, lines."""
        every = (
            ("What differs is marked", "", self.figures),
            ("Core by core", "core", self.cores),
            ("Noise by tensor", "noise of", self.losses),
        )
        return tuple(table for table in every if table[2])

    def page(self) -> str:
        """Return the comparison as HTML, well-formed and without references to other files."""
        return render("comparison.html", comparison=self, scripts=())

    def shown(self) -> Group:
        """Return the comparison for the terminal."""
        parts: list[Table | Text] = []
        for _, head, lines in self.tables:
            table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 1), header_style="bold")
            for heading in (head, *self.names):
                table.add_column(printable(heading), overflow="fold")
            for line in lines:
                name = Text(abridged(line.what, MAX_NAME), "bold" if line.differs else "")
                table.add_row(name, Text(printable(line.one)), Text(printable(line.other)))
            parts += [Text(""), table]
        return Group(*parts[1:])


def compare(one: Report, other: Report, names: tuple[str, str]) -> BuildComparison:
    """Compare all figures, cores and losses of either build, in the order of the first."""
    return BuildComparison(
        names,
        _lines(dict(figures(one)), dict(figures(other))),
        _matched(dict(_cores(one)), dict(_cores(other))),
        _matched(dict(_losses(one)), dict(_losses(other))),
    )


def figures(report: Report) -> Iterator[tuple[str, str]]:
    """Yield name and text of every figure of a build."""
    yield "model", report.model.name
    yield "board", f"{report.board.name}, {report.board.device}"
    yield "verdict", verdict(report).sentence
    design, synthesis = report.design, report.synthesis
    if design is not None:
        yield "interval", f"{design.interval_cycles:,} cycles"
        yield (
            "speed",
            f"{frame_rate(report.running_frames_per_second or 0)} at {report.running_mhz or 0:.4g} MHz",
        )
        if report.serial is not None:
            yield "through the link", frame_rate(report.serial.delivered_frames_per_second)
        yield "first result", duration(design.latency_cycles / (report.running_mhz or design.clock_mhz) * 1e-6)
        yield "lanes", f"{design.lanes:,}, busy {design.mac_efficiency:.0%}"
        yield "cores", f"{len(design.nodes):,}"
        yield "bottleneck", design.pacing_core.name if design.pacing_core else "the memory of weights"
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
        yield "accuracy of the model", f"{report.accuracy.reference:.2%}"
    if report.reference is not None and (floats := report.reference.float_model) is not None:
        for output in floats.outputs:
            spelled_db = "no difference" if output.sqnr_db is None else f"{output.sqnr_db:.1f} dB"
            yield f"fidelity of {output.name}", f"{spelled_db} to the float model"
        for tensor in floats.tensors[:1]:
            if tensor.sqnr_db is not None:
                yield "worst tensor", f"{tensor.name}, {tensor.sqnr_db:.1f} dB"
    if report.seconds:
        yield "built in", f"{sum(report.seconds.values()):,.1f} s"
    yield "onnx-hw", report.tools.get("onnx-hw", "")
    yield "digest", report.digest[:16]


def _cores(report: Report) -> Iterator[tuple[str, str]]:
    for core in report.design.nodes if report.design is not None else ():
        yield core.name, f"{spelled(core.folding)}, {core.cycles:,} cycles, {core.lanes:,} lanes, {core.lut:,} LUT4"


def _losses(report: Report) -> Iterator[tuple[str, str]]:
    floats = None if report.reference is None else report.reference.float_model
    for loss in () if floats is None else floats.losses:
        noise = "adds nothing" if loss.sqnr_db is None else f"{loss.sqnr_db:.1f} dB, {loss.share:.0%} of the noise"
        yield f"{loss.name} ({loss.kind})", f"{loss.bits} bits, {noise}"


WIDTH = re.compile(r"(?<![A-Za-z0-9_])u?int\d+(?![A-Za-z0-9_])")
"""Width in the name of a core or a value, such as in ``conv1/int8``."""


def _matched(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[ComparisonLine, ...]:
    """Return a line for each name; names of one build only are matched where they differ in a width alone."""
    partners = dict[str, str]()
    for name in one:
        alike = [] if name in other else [n for n in other if n not in one and WIDTH.sub("", n) == WIDTH.sub("", name)]
        if len(alike) == 1 and alike[0] not in partners.values():
            partners[name] = alike[0]
    lines = []
    for name, text in one.items():
        partner = partners.get(name, name)
        lines.append(ComparisonLine(name if partner == name else f"{name}, {partner}", text, other.get(partner, "")))
    taken = {*one, *partners.values()}
    return (*lines, *(ComparisonLine(name, "", text) for name, text in other.items() if name not in taken))


def _lines(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[ComparisonLine, ...]:
    return tuple(ComparisonLine(what, one.get(what, ""), other.get(what, "")) for what in {**one, **other})
