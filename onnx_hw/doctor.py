"""``onnx-hw doctor``: which programs are there, where, in which version, and what to do about the others."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from onnx_hw_sim import tools

PURPOSES = {
    "yosys": "synthesis, and the circuit as Verilog",
    "nextpnr-ecp5": "place and route",
    "ecppack": "the bitstream",
    "verilator": "the fast simulation",
    "c++": "the fast simulation",
    "iverilog": "benches of single cores in tests/",
}
OPTIONAL = {
    "verilator": "without it a slow simulator proves fewer frames",
    "c++": "without it a slow simulator proves fewer frames",
    "iverilog": "no build needs it; distributions have it as `iverilog`",
}


@dataclass(frozen=True)
class Finding:
    """One program.

    Attributes:
        name, purpose: what it is called and is for.
        version, found: what it says of itself and how it was found; empty when it is missing.
        advice: what to do, or to know; may be empty.
        stands_in_the_way: it is missing and a build cannot do without.
    """

    name: str
    purpose: str
    version: str = ""
    found: str = ""
    advice: str = ""
    stands_in_the_way: bool = False


def examine() -> tuple[Finding, ...]:
    """Look for every program of the catalogue."""
    return tuple(_examined(name, purpose) for name, purpose in PURPOSES.items())


def _examined(name: str, purpose: str) -> Finding:
    try:
        tool = tools.find(name)
    except tools.ToolMissing as missing:
        brought = f"{missing.extra}, or set {missing.variable}"
        if tools.CATALOGUE[name].wheel is None:
            brought = f"set {missing.variable}"
        advice = "; ".join(part for part in (brought, OPTIONAL.get(name, "")) if part)
        asked_for = bool(os.environ.get(missing.variable, "").strip())  # nothing else is taken instead
        return Finding(name, purpose, advice=advice, stands_in_the_way=asked_for or name not in OPTIONAL)
    advice = "the first call prepares it for this machine: up to a minute" if tools.is_first_run(tool) else ""
    return Finding(name, purpose, tool.version, tool.found, advice)


def shown(findings: tuple[Finding, ...]) -> Group:
    """The findings as a table, what to do about them, and a verdict."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 1), header_style="bold")
    for heading in ("program", "version", "found", "for"):
        table.add_column(heading)
    for finding in findings:
        if finding.found:
            version = Text(finding.version)
        else:
            version = Text("missing", "bold red" if finding.stands_in_the_way else "yellow")
        table.add_row(finding.name, version, finding.found, finding.purpose)
    advice = [Text(f" {finding.name}: {finding.advice}") for finding in findings if finding.advice]
    absent = [finding.name for finding in findings if finding.stands_in_the_way]
    if absent:
        verdict = Text(f" a build cannot be finished without {', '.join(absent)}", "bold red")
    else:
        verdict = Text(" everything a build needs is there", "bold green")
    return Group(table, Text(""), *advice, verdict)
