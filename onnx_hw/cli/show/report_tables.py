"""The report on the terminal: cores with the bottleneck marked, resource bars, the timing verdict.

Everything is understandable without colour.
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

import onnx_hw_boards
from onnx_hw.messages.text import abridged, printable, short
from onnx_hw.report import losses
from onnx_hw.report.core_table import CellFormat, core_table, terminal_columns
from onnx_hw.report.fact import Fact
from onnx_hw.report.model import Accuracy, DesignSection, FloatModel, Report, Serial, Synthesis
from onnx_hw.report.proof_chain import LEFT_OUT, in_short
from onnx_hw.report.utilization import usage
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_boards.verilog_board import NO_CHIP

BAR = 10  # characters
LONGEST_CORE = 120  # characters of its name
NAME = 22  # characters that the name of a core gets, if there are so many and any form of the table leaves them


class Form(NamedTuple):
    """How much of the table of cores there is.

    Attributes:
        gap: characters between columns.
        optional: whether optional columns are shown.
        mark: of the busiest core.
    """

    gap: int
    optional: bool
    mark: str


FORMS = (Form(3, True, "← bottleneck"), Form(2, True, "←"), Form(1, True, "←"), Form(1, False, "←"))
"""From wide to narrow."""


def summary(report: Report, folder: Path) -> Group:
    """What is printed below the stage lines of a build written to ``folder``."""
    return Group(*(part for block in _blocks(report, folder) for part in (Text(""), block)))


def _blocks(report: Report, folder: Path) -> Iterator[RenderableType]:
    if report.design is not None:
        yield Cores(report.design)
        yield resources(report)
    facts: list[Fact] = []
    if report.links.reference_golden.state != LEFT_OUT:
        facts.append(Fact("proof", Text(in_short(report.links))))
    if report.accuracy is not None:
        facts.append(accuracy(report.accuracy))
    if report.reference is not None and report.reference.float_model is not None:
        facts.append(fidelity(report.reference.float_model))
        if lost := losses.in_short(report.reference.float_model.losses):
            facts.append(Fact("noise", Text(printable(lost))))
    if report.synthesis is not None and report.synthesis.fmax_mhz is not None:
        facts.append(verdict(report.synthesis))
    if report.design is not None:
        facts.append(speed(report.design))
    if report.serial is not None:
        facts.append(link(report.serial))
    facts.extend(Fact(kind, Text(printable(str(folder / path)))) for kind, path in report.files.items())
    if facts:
        yield Group(*facts, Fact("next", Text(printable(next_step(report, folder)))))


@dataclass(frozen=True)
class Cores:
    """One line a core, the busiest one marked, and a total; names are shortened where there is no room for them."""

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
            if room >= min(longest, NAME):
                break
        table = Table(box=None, pad_edge=False, padding=(0, form.gap - 1, 0, 1), header_style="bold")
        table.add_column(names[0], no_wrap=True)
        for format_, (heading, *_) in columns:
            left, style = format_ is CellFormat.TEXT, None if heading else "yellow"
            table.add_column(heading, justify="left" if left else "right", no_wrap=True, style=style)
        for name, *cells in zip(names[1:], *(cells[1:] for _, cells in columns), strict=True):
            table.add_row(Text(_fitted(name, min(room, LONGEST_CORE))), *map(Text, cells))
        table.rows[-1].style = "bold"
        return table

    def _columns(self, form: Form) -> list[tuple[CellFormat, list[str]]]:
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
    """A name in so many cells of a terminal, of which a character may take two."""
    shown = abridged(name, max(2, room - 3))
    return shown if cell_len(shown) <= room else abridged(name, max(2, (room - 3) // 2))


def resources(report: Report) -> Group:
    """A bar for each resource that is used: of the synthesized circuit, else as estimated."""
    estimated = "" if report.synthesis is not None else "  (estimated)"
    return Group(*(bar(use.name, use.used, use.available, estimated) for use in usage(report)))


def bar(name: str, used: int, available: int, remark: str = "") -> Text:
    """`` LUT4   [=         ]   9 %   7,120 of 83,640``; full bars are red."""
    share = used / available if available else 1.0
    filled = min(BAR, max(1, round(share * BAR)))
    style = "red" if used > available else "yellow" if share > 0.9 else "green"
    line = Text(f" {name:<5} [")
    line.append("=" * filled, style)
    return line.append(f"{' ' * (BAR - filled)}] {share:>4.0%}  {used:>7,} of {available:,}{remark}")


def next_step(report: Report, folder: Path) -> str:
    """What somebody with such a build, in ``folder``, does now."""
    if report.board.device == NO_CHIP:
        made = next((name for name in ("shell", "verilog") if name in report.files), None)
        unmade = "leave out --stop-after for the Verilog, which yosys writes"
        return unmade if made is None else f"put {made}/ in a design of your own"
    if "bitstream" not in report.files:
        return "leave out --stop-after for a bitstream"
    if report.synthesis is not None and not report.synthesis.timing_met:
        return "run it at a slower clock, or build it with fewer lanes: --multipliers"
    if report.serial is not None:
        infers = f"`onnx-hw infer {folder} --inputs X.npz`"
        return f"`onnx-hw program {folder}{_options_of_program(report)}` puts the bitstream on the board, then {infers}"
    return "load the bitstream; `io` in the report says what its streams carry, and how integers stand for numbers"


def _options_of_program(report: Report) -> str:
    """Without which it refuses: some boards are programmed through their flash only, others are the user's own."""
    name = report.board.name
    if name not in onnx_hw_boards.names():
        return " --board FILE.py"
    board = onnx_hw_boards.board(name)
    return " --flash" if isinstance(board, LinkedBoard) and board.loader.memory is None else ""


def verdict(made: Synthesis) -> Fact:
    """The clock that was reached, against the one that was wanted; only for a routed circuit."""
    passed = bool(made.timing_met)
    line = Text(f"{made.fmax_mhz:.1f} MHz, ")
    line.append("PASS" if passed else "FAIL", "bold green" if passed else "bold red")
    return Fact("clock", line.append(f" at {made.target_mhz:g} MHz"))


def speed(design: DesignSection) -> Fact:
    """Frames per second and time to the first result at the clock the build aims at."""
    hertz = design.clock_mhz * 1e6
    asked = f" ({design.frames_per_second_asked:,g} asked)" if design.frames_per_second_asked is not None else ""
    said = (
        f"{design.frames_per_second:,.0f} frames/s{asked}, first result after "
        f"{_duration(design.latency_cycles / hertz)}, at {design.clock_mhz:g} MHz; "
        f"multipliers busy {design.mac_efficiency:.0%}"
    )
    return Fact("speed", Text(said))


def link(serial: Serial) -> Fact:
    """What the link to the host carries, and which of the two limits."""
    limit = "it is the limit" if serial.limit == "link" else "the circuit is the limit"
    said = f"{serial.baud:,} baud carry {serial.frames_per_second:,.0f} frames/s of {serial.bytes_in:,} bytes in, "
    return Fact("link", Text(f"{said}{serial.bytes_out:,} out: {limit}"))


def accuracy(measured: Accuracy) -> Fact:
    """Right answers of the model, of the integer network and of the circuit."""
    line = f"model {measured.reference:.2%}, golden {measured.golden:.2%} of {measured.samples:,} samples"
    if measured.circuit is not None:
        line += f"; circuit {measured.circuit:.2%} of {measured.circuit_samples:,}"
    return Fact("accuracy", Text(line))


def fidelity(measured: FloatModel) -> Fact:
    """What quantization costs: the worst output and the worst tensor."""
    noisy = [output.sqnr_db for output in measured.outputs if output.sqnr_db is not None]
    line = f"{f'{min(noisy):.1f} dB' if noisy else 'no difference'} to the float model's outputs"
    for tensor in measured.tensors[:1]:
        if tensor.sqnr_db is not None:
            line += f"; of all tensors {short(tensor.name)} is worst, {tensor.sqnr_db:.1f} dB"
    return Fact("fidelity", Text(line))


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
