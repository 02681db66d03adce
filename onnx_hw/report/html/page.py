"""Page ``report.html``: the report as one file that opens without a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from onnx_hw.messages.html import render
from onnx_hw.report.accuracy import Accuracy, ClassAccuracy
from onnx_hw.report.core_table import core_table, page_columns
from onnx_hw.report.follow_up_commands import follow_up_commands
from onnx_hw.report.html.dataflow_graph import dataflow_graph
from onnx_hw.report.model import DesignSection, Report
from onnx_hw.report.netlist_sections import Synthesis
from onnx_hw.report.proof_chain import FAILED, LEFT_OUT, PROVEN, ChainFault, ChainLink, listed
from onnx_hw.report.timeline import Timeline
from onnx_hw.report.utilization import usage

PAGE = "report.html"
SCRIPTS = ("uPlot.iife.min.js", "dagre.min.js", "page.js", "plots.js", "graph.js", "report.js")
"""Files that the page embeds, in the order in which they run."""

MAX_WORST = 20  # classes shown where there is no confusion matrix
MAX_WAITS = 2  # shown of each core

TITLES = (
    "the model and its reference",
    "reference and golden",
    "golden and circuit",
    "circuit and netlist of the chip",
    "netlist of the chip and bitstream",
)
TESTED = "the numpy operators define what the model means; they are tested with ONNX's own cases, once for all models"


@dataclass(frozen=True)
class Verdict:
    """Verdict on a build, the first thing on its page.

    Attributes:
        kind: ``good``, ``open`` or ``bad``.
        word: short form for a title.
        faults: faults that ended the build.
    """

    kind: str
    word: str
    sentence: str
    faults: tuple[ChainFault, ...] = ()


def page(report: Report) -> str:
    """Return the text of ``report.html``, well-formed and without references to other files."""
    return render("report.html", linked=True, scripts=SCRIPTS, **values(report))


def notebook(report: Report) -> str:
    """Return the report as a part of another page, for a notebook."""
    return render("notebook.html", linked=False, **values(report))


def values(report: Report) -> dict[str, Any]:
    """Return the values of the templates' variables."""
    plan = {} if report.design is None else {**_graph(report, report.design), **_cores(report, report.design)}
    return {
        "report": report,
        "verdict": verdict(report),
        "chain": _chain(report),
        "usage": usage(report),
        **plan,
        **_integers(report),
        "commands": follow_up_commands(report),
        "classes": [] if report.accuracy is None else _classes(report.accuracy),
        **({} if report.timeline is None else _timeline(report.timeline)),
    }


def verdict(report: Report) -> Verdict:
    """Return the reason for failure, if there is one; else how much of the chain is proven."""
    links, synthesis, failure = report.links, report.synthesis, report.failure
    states = [link.state for link in links.numbered.values()]
    if failure is not None:
        ended = "failed" if failure.faults else "was interrupted"
        return Verdict("bad", ended, f"The build {ended} in the stage {failure.stage}", failure.faults)
    if FAILED in (links.model_reference.state, *states):
        broken = 1 if links.model_reference.state == FAILED else states.index(FAILED) + 2
        return Verdict("bad", FAILED, f"Link {broken} of the chain is broken")
    if synthesis is not None and synthesis.timing_met is False:
        sentence = f"The circuit reaches {synthesis.fmax_mhz:.1f} MHz, not {synthesis.target_mhz:g} MHz"
        return Verdict("bad", "clock missed", sentence, _slowest_path(synthesis))
    proven = [str(number) for number, state in enumerate(states, 2) if state == PROVEN]
    still_open = [str(number) for number, state in enumerate(states, 2) if state != PROVEN]
    if not still_open:
        return Verdict("good", PROVEN, "Proven: the bitstream computes what the model says")
    if not proven:
        return Verdict("open", "not proven", "Nothing was proven: the build stopped before the first proof")
    sentence = f"Link{'s' if len(proven) > 1 else ''} {listed(proven)} proven; {listed(still_open)} open"
    return Verdict("open", "proven in part", sentence)


def _slowest_path(synthesis: Synthesis) -> tuple[ChainFault, ...]:
    """Return the fault that explains a missed clock."""
    ends = synthesis.critical_path[:1] + synthesis.critical_path[-1:]
    return (ChainFault("timing", f"the slowest path leads from {' to '.join(ends)}", "", ""),) if ends else ()


def _chain(report: Report) -> list[dict[str, Any]]:
    links = report.links
    witness = links.model_reference
    compared = TESTED if witness == ChainLink() else f"{TESTED}; {witness.compared}"
    first = replace(witness, state="tested" if witness.state == LEFT_OUT else witness.state, compared=compared)
    each = (first, *links.numbered.values())
    return [
        {"number": number, "title": title, "counts": _counts(link), **asdict(link)}
        for number, (title, link) in enumerate(zip(TITLES, each, strict=True), 1)
    ]


def _counts(link: ChainLink) -> str:
    counts = ((link.frames, "frame"), (link.runs, "run"), (link.values, "value"), (link.cycles, "cycle"))
    counted = [f"{count:,} {name}{'s' if count != 1 else ''}" for count, name in counts if count]
    return ", ".join([*counted, *([f"{link.wrong:,} wrong"] if link.values else [])])


def _graph(report: Report, design: DesignSection) -> dict[str, Any]:
    """Return the dataflow graph, and what its caption says."""
    busiest = max(core.cycles for core in design.nodes)
    return {
        "graph": dataflow_graph(design, report.io),
        "filled": any(fifo.max_fill is not None for fifo in design.fifos),
        "bottleneck": design.nodes.index(design.bottleneck),
        "pace_makers": sum(core.cycles == busiest for core in design.nodes),
    }


def _cores(report: Report, design: DesignSection) -> dict[str, Any]:
    """Return the table of cores and its columns."""
    table = core_table(design, report.synthesis, report.activity)
    numbers = {core.name: number for number, core in enumerate(design.nodes)}
    return {"cores": table, "core_columns": page_columns(table), "numbers": numbers}


def _classes(accuracy: Accuracy) -> list[ClassAccuracy]:
    """Return the classes of the table: all of a confusion matrix, or else the worst ones."""
    if accuracy.confusion:
        return list(accuracy.classes)
    return sorted(accuracy.classes, key=lambda entry: (entry.golden, entry.label))[:MAX_WORST]


def _integers(report: Report) -> dict[str, Any]:
    """Return which columns the table of tensors has, and the points of the plot of signal to noise."""
    tensors = report.quantization.tensors if report.quantization is not None else ()
    seen = max((tensor.seen.frames for tensor in tensors if tensor.seen is not None), default=0)
    noise = [
        {"number": number, "name": tensor.name, "bits": tensor.bits, "sqnr_db": tensor.sqnr_db}
        for number, tensor in enumerate(tensors)
        if tensor.sqnr_db is not None
    ]
    floats = report.reference.float_model if report.reference is not None else None
    of_outputs = [
        {"number": None, "name": output.name, "bits": None, "sqnr_db": output.sqnr_db}
        for output in (floats.outputs if floats is not None else ())
        if output.sqnr_db is not None
    ]
    return {"any_seen": seen, "noise": [*noise, *of_outputs], "tensor_noise": bool(noise), "outline": outline}


def _timeline(timeline: Timeline) -> dict[str, Any]:
    """Return the work of every core on each frame, as runs of (digit, steps), and its longest waits."""
    runs = [
        [[(int(digit), len(list(run))) for digit, run in groupby(digits)] for digits in core.frames]
        for core in timeline.cores
    ]
    busy = (f"{core.name}: {', '.join(_busy_spans(core.frames, timeline.step_cycles))}" for core in timeline.cores)
    return {
        "timeline": {
            "cycles": timeline.cycles,
            "step_cycles": timeline.step_cycles,
            "cores": [{"name": core.name, "frames": frames} for core, frames in zip(timeline.cores, runs, strict=True)],
        },
        "busy": "; ".join(busy),
        "waiting": [(core.name, wait) for core in timeline.cores for wait in core.waits[:MAX_WAITS]],
    }


def outline(digits: str) -> str:
    """Return the outline of steps as high as their digits, 9 at most, as a path of SVG; empty where all are 0."""
    path, at, height = "", 0, 0
    for digit, run in groupby(digits):
        if int(digit) != height:
            path += f"V{9 - int(digit)}" if path else f"M{at} 9V{9 - int(digit)}"
        height, at = int(digit), at + len(list(run))
        path += f"H{at}" if path else ""
    return f"{path}V9Z" if path else ""


def _busy_spans(frames: tuple[str, ...], step: int) -> Iterator[str]:
    for number, digits in enumerate(frames, 1):
        busy = [k for k, digit in enumerate(digits) if digit != "0"]
        if busy:
            yield f"frame {number} from cycle {busy[0] * step:,} to {(busy[-1] + 1) * step:,}"
