"""``onnx-hw doctor``: which programs are there, where, in which version, and what to do about the others."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

import onnx_hw_boards
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.report.fact import Fact
from onnx_hw.runtime.options import DEFAULT_BOARD
from onnx_hw_boards.verilog_board import VerilogBoard
from onnx_hw_tools import tools

PURPOSES = {
    "yosys": "synthesis, and the circuit as Verilog",
    "verilator": "waveforms, `--engine verilator`, and the simulated chip behind a link",
    "c++": "the fast simulation",
    "iverilog": "`--engine icarus`, and the cocotb folder of a build",
    "cocotb": "the engines `icarus` and `verilator`, and that folder",
}
OPTIONAL = {
    "verilator": "a build can be finished without it",
    "c++": "without it a slow simulator proves fewer frames",
    "iverilog": "no build needs it",
    "cocotb": "no build needs it",
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
    """Look for every program that a build for some board uses, those for the default board first."""
    findings = [_examined(name, purpose, OPTIONAL.get(name, "")) for name, purpose in PURPOSES.items()]
    boards_of: dict[tuple[str, str], list[str]] = {find_board(DEFAULT_BOARD).family.tools: []}
    for name in onnx_hw_boards.names():
        board = onnx_hw_boards.board(name)
        if not isinstance(board, VerilogBoard):
            boards_of.setdefault(board.family.tools, []).append(name)
    for (nextpnr, packer), boards in boards_of.items():
        served = ", ".join(f"`{name}`" for name in boards)
        optional = "" if DEFAULT_BOARD in boards else "no other board needs it"
        findings += [_examined(nextpnr, f"place and route for {served}", optional)]
        findings += [_examined(packer, f"the bitstream for {served}", optional)]
    return tuple(findings)


def _examined(name: str, purpose: str, optional: str) -> Finding:
    try:
        tool = tools.find(name)
    except tools.ToolMissing as missing:
        brought = f"{missing.install}, or set {missing.variable}"
        advice = "; ".join(part for part in (*missing.refused, brought, optional) if part)
        asked_for = bool(os.environ.get(missing.variable, "").strip())  # nothing else is taken instead
        return Finding(name, purpose, advice=advice, stands_in_the_way=asked_for or not optional)
    facts = [f"passed over: {older}" for older in tool.passed_over]
    least = tools.CATALOGUE[name].least
    if not tool.wheel and least and not tools.version_number(tool):
        facts.append(f"it does not say its version, which must be {'.'.join(map(str, least))} or newer")
    if tools.is_first_run(tool):
        facts.append("the first call prepares it for this machine: up to a minute")
    return Finding(name, purpose, tool.version, _why(tool), "; ".join(facts))


def _why(tool: tools.Tool) -> str:
    """Return where a tool comes from, and why this one is taken."""
    if tool.found.startswith("$"):
        return f"named by {tool.found}"
    if tool.wheel:
        return f"from the {tool.found}"
    return f"{tool.command[0]}, first on PATH"


def shown(findings: tuple[Finding, ...]) -> Group:
    """Return the programs that are installed, what to do about the others, and a verdict."""
    width = max(len(finding.name) for finding in findings) + 1
    facts = [Fact(finding.name, _said(finding), width) for finding in findings]
    absent = [finding.name for finding in findings if finding.stands_in_the_way]
    if absent:
        verdict = Text(f" a build cannot be finished without {', '.join(absent)}", "bold red")
    else:
        verdict = Text(" everything a build needs is there", "bold green")
    return Group(*facts, Text(""), verdict)


def _said(finding: Finding) -> Text:
    if finding.found:
        text = Text(f"{finding.version}, {finding.found}")
    else:
        text = Text("missing", "bold red" if finding.stands_in_the_way else "yellow")
    text.append(f": {finding.purpose}", "")
    return text.append(f"\n{finding.advice}", "") if finding.advice else text
