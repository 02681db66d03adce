"""Report on the terminal: cores with the bottleneck marked, resource bars, the timing verdict.

Nothing depends on colour alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from onnx_hw.messages.html import duration, figures, frame_rate
from onnx_hw.messages.text import abridged, printable, short
from onnx_hw.report import losses
from onnx_hw.report.accuracy import Accuracy
from onnx_hw.report.build_command import build_command
from onnx_hw.report.core_table import CellFormat, core_table, terminal_columns
from onnx_hw.report.fact import Fact
from onnx_hw.report.follow_up_commands import infer_command, program_command, verify_command
from onnx_hw.report.model import DesignSection, FloatModel, Report, Serial
from onnx_hw.report.netlist_sections import Synthesis
from onnx_hw.report.proof_chain import LEFT_OUT, NOT_REACHED, in_short, witness_in_short
from onnx_hw.report.utilization import usage
from onnx_hw_boards.verilog_board import NO_CHIP

BAR_WIDTH = 10  # characters
MAX_CORE_NAME = 120  # characters
MIN_CORE_NAME = 22  # characters; a form of the table that leaves the names less is too wide


class TableForm(NamedTuple):
    """TableForm of the table of cores.

    Attributes:
        gap: number of characters between columns.
        optional: whether optional columns are shown.
        mark: mark of the busiest core.
    """

    gap: int
    optional: bool
    mark: str


FORMS = (TableForm(3, True, "← bottleneck"), TableForm(2, True, "←"), TableForm(1, True, "←"), TableForm(1, False, "←"))
"""All forms, from wide to narrow."""


def summary(report: Report, folder: Path) -> Group:
    """Return what is printed below the stage lines of a build that was written to ``folder``."""
    return Group(*(part for block in _blocks(report, folder) for part in (Text(""), block)))


def _blocks(report: Report, folder: Path) -> Iterator[RenderableType]:
    if report.design is not None:
        yield Cores(report.design)
        yield resources(report)
    facts: list[Fact] = []
    if report.links.reference_golden.state != LEFT_OUT:
        facts.append(Fact("proof", Text(in_short(report.links))))
        if report.links.model_reference.compared != NOT_REACHED:
            facts.append(Fact("witness", Text(printable(witness_in_short(report.links)))))
    if report.accuracy is not None:
        facts.append(accuracy(report.accuracy))
    if report.reference is not None and report.reference.float_model is not None:
        facts.append(fidelity(report.reference.float_model))
        if lost := losses.in_short(report.reference.float_model.losses):
            facts.append(Fact("noise", Text(printable(lost))))
    if report.synthesis is not None and report.synthesis.fmax_mhz is not None:
        facts.append(verdict(report.synthesis))
    if report.serial is not None:
        facts.append(link(report.serial))
    if report.design is not None:
        facts.append(speed(report.design, "circuit" if report.serial is not None else "speed", report.running_mhz))
    facts.extend(Fact(kind, Text(printable(str(folder / path)))) for kind, path in report.files.items())
    if facts:
        yield Group(*facts, Fact("next", Text(printable(next_step(report, folder)))))


@dataclass(frozen=True)
class Cores:
    """Table of one line per core, the busiest one marked, and a total; names are shortened to fit."""

    design: DesignSection

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.table(options.max_width)

    def table(self, width: int) -> Table:
        """Return the table for a terminal of ``width`` characters: the widest form that leaves the names their room."""
        names = ["node", *(core.name for core in self.design.nodes), "total"]
        longest = max(len("node"), *(cell_len(printable(core.name)) for core in self.design.nodes))
        for form in FORMS:
            columns = self._columns(form)
            others = sum(max(map(len, cells)) for _, cells in columns)
            room = width - others - form.gap * len(columns)
            if room >= min(longest, MIN_CORE_NAME):
                break
        table = Table(box=None, pad_edge=False, padding=(0, form.gap - 1, 0, 1), header_style="bold")
        table.add_column(names[0], no_wrap=True)
        for format_, (heading, *_) in columns:
            left, style = format_ is CellFormat.TEXT, None if heading else "yellow"
            table.add_column(heading, justify="left" if left else "right", no_wrap=True, style=style)
        for name, *cells in zip(names[1:], *(cells[1:] for _, cells in columns), strict=True):
            table.add_row(Text(_fitted(name, min(room, MAX_CORE_NAME))), *map(Text, cells))
        table.rows[-1].style = "bold"
        return table

    def _columns(self, form: TableForm) -> list[tuple[CellFormat, list[str]]]:
        """Return every column but the names: its format, and its cells from the heading to the total."""
        cores = core_table(self.design)
        columns = [
            (
                column.format,
                [column.terminal or "", *(str(column.cell(row)) for row in cores.rows), str(column.total_cell(cores))],
            )
            for column in terminal_columns(optional=form.optional)
        ]
        marks = [form.mark if row.is_bottleneck else "" for row in cores.rows]
        return [*columns, (CellFormat.TEXT, ["", *marks, ""])]


def _fitted(name: str, room: int) -> str:
    """Return a name in at most ``room`` cells of a terminal; a character may take two."""
    shown = abridged(name, max(2, room - 3))
    return shown if cell_len(shown) <= room else abridged(name, max(2, (room - 3) // 2))


def resources(report: Report) -> Group:
    """Return a bar for each resource that is used: of the synthesized circuit, else as estimated."""
    estimated = "" if report.synthesis is not None else "  (estimated)"
    return Group(*(bar(use.name, use.used, use.available, estimated) for use in usage(report)))


def bar(name: str, used: int, available: int, remark: str = "") -> Text:
    """Return a bar such as `` LUT4   [=         ]   9 %   7,120 of 83,640``; full bars are red."""
    share = used / available if available else 1.0
    filled = min(BAR_WIDTH, max(1, round(share * BAR_WIDTH)))
    style = "red" if used > available else "yellow" if share > 0.9 else "green"
    line = Text(f" {name:<5} [")
    line.append("=" * filled, style)
    return line.append(f"{' ' * (BAR_WIDTH - filled)}] {share:>4.0%}  {used:>7,} of {available:,}{remark}")


def next_step(report: Report, folder: Path) -> str:
    """Return what to do next with such a build in ``folder``."""
    if report.board.device == NO_CHIP:
        verilog = next((name for name in ("shell", "verilog") if name in report.files), None)
        if verilog is not None:
            return f"put {folder / verilog}/ in a design of your own"
        return _of_a_part(report, folder, "the Verilog, which yosys writes")
    if "bitstream" not in report.files:
        return _of_a_part(report, folder, "the bitstream")
    if report.synthesis is not None and not report.synthesis.timing_met:
        clock = int(report.synthesis.fmax_mhz or 0)
        slower = f"--clock {clock}"
        if report.asked is not None:
            slower = f"`{build_command({**report.asked.options, 'clock_mhz': clock})}`"
        return f"build it for a slower clock, such as {slower}, or with fewer lanes: --multipliers"
    if report.serial is not None:
        return (
            f"`{program_command(report, folder)}` puts the bitstream on the board, then "
            f"`{infer_command(report, folder)}`"
        )
    return (
        f"load {folder / report.files['bitstream']} with the loader of your own board; `io` in the report describes "
        "the streams at the pins. `onnx-hw boards` lists boards to plug in, which `onnx-hw infer` sends samples to"
    )


def _of_a_part(report: Report, folder: Path, rest: str) -> str:
    """Return what there is to do with a build that stopped early, and the command that goes on to the rest."""
    if report.asked is None:
        return f"leave out --stop-after for {rest}"
    on = f"`{build_command(report.asked.options, without=('stop_after',))}` goes on to {rest}"
    if report.serial is not None and "model" in report.files:
        return f"{on}; `{infer_command(report, folder, '--port', 'sim')}` computes with the whole chip, simulated"
    if report.design is not None:
        return f"{on}; `{verify_command(report, folder)}` proves this design with more data"
    return on


def verdict(synthesis: Synthesis) -> Fact:
    """Return the clock of a routed circuit, against the one that was asked for."""
    passed = bool(synthesis.timing_met)
    line = Text(f"{synthesis.fmax_mhz:.1f} MHz, ")
    line.append("PASS" if passed else "FAIL", "bold green" if passed else "bold red")
    return Fact("clock", line.append(f" at {synthesis.target_mhz:g} MHz"))


def speed(design: DesignSection, name: str = "speed", running_mhz: float | None = None) -> Fact:
    """Return frames per second and time to the first result.

    Args:
        running_mhz: the clock of the circuit; where it is not the one that was asked for, the rate at that one stands
            beside it. None for the one that was asked for.
    """
    mhz = running_mhz or design.clock_mhz
    rate = design.frames_per_second * mhz / design.clock_mhz
    at = f"{mhz:g} MHz"
    if mhz != design.clock_mhz:
        at = f"the {mhz:.1f} MHz reached ({figures(design.frames_per_second, 3)} at the {design.clock_mhz:g} MHz asked)"
    asked = f" ({design.frames_per_second_asked:,g} asked)" if design.frames_per_second_asked is not None else ""
    text = (
        f"{frame_rate(rate)}{asked}, first result after {duration(design.latency_cycles / mhz * 1e-6)}, at {at}; "
        f"multipliers busy {design.mac_efficiency:.0%}"
    )
    return Fact(name, Text(text))


def link(serial: Serial) -> Fact:
    """Return what a user gets through the link to the host, and whether it or the circuit is the limit."""
    limit = "the link is the limit" if serial.limit == "link" else "the circuit is the limit"
    text = f"{frame_rate(serial.delivered_frames_per_second)} through the link: {limit}; {serial.baud:,} bit/s carry "
    sizes = f"of {serial.bytes_in:,} bytes in, {serial.bytes_out:,} out"
    return Fact("speed", Text(f"{text}{frame_rate(serial.frames_per_second)} {sizes}"))


def accuracy(measured: Accuracy) -> Fact:
    """Return the shares of right answers of the model, of the integer network and of the circuit."""
    line = f"model {measured.reference:.2%}, golden {measured.golden:.2%} of {measured.samples:,} samples"
    return Fact("accuracy", Text("; ".join(filter(None, (line, measured.circuit_in_words)))))


def fidelity(measured: FloatModel) -> Fact:
    """Return the fidelity to the float model: of the worst output and of the worst tensor."""
    noisy = [output.sqnr_db for output in measured.outputs if output.sqnr_db is not None]
    line = f"{f'{min(noisy):.1f} dB' if noisy else 'no difference'} to the float model's outputs"
    for tensor in measured.tensors[:1]:
        if tensor.sqnr_db is not None:
            line += f"; of all tensors {short(tensor.name)} is worst, {tensor.sqnr_db:.1f} dB"
    return Fact("fidelity", Text(line))
