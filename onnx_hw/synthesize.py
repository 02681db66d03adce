"""The synthesis stage: a netlist of the chip's own cells, by yosys."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from onnx_hw.build_folder import BuildFolder, Made
from onnx_hw.errors import ExitCode, UserError, user_error
from onnx_hw_boards.board import Board
from onnx_hw_sim import tools

NETLIST = "netlist.json"
STATISTICS = "statistics.json"

SCRIPTS = {
    # ABC and not ABC9, which gives up on some netlists with distributed memory (yosys 0.70); ABC maps all of them, and
    # the critical paths here are routing and hard blocks, not deep logic
    "ecp5": "read_rtlil top.il; synth_ecp5 -top top -run begin:map_luts; abc -lut 4:7; clean; "
    f"synth_ecp5 -top top -run map_cells:json; tee -q -o {STATISTICS} stat -json; write_json {NETLIST}",
}
"""By family."""


@dataclass(frozen=True)
class Cells:
    """What a netlist takes of a chip.

    Attributes:
        lut4: look-up tables, those of carry chains and distributed memory included.
        ff: flip-flops.
        dsp: hardware multipliers.
        bram: block RAMs.
    """

    lut4: int
    ff: int
    dsp: int
    bram: int

    def excess(self, board: Board) -> str:
        """What there is too much of for a board, or an empty text."""
        budget = board.budget
        pairs = (
            ("look-up tables", self.lut4, budget.lut),
            ("flip-flops", self.ff, budget.ff),
            ("multipliers", self.dsp, budget.dsp),
            ("block RAMs", self.bram, budget.bram),
        )
        return ", ".join(f"{used:,} {name} of {there:,}" for name, used, there in pairs if used > there)


@dataclass(frozen=True)
class Synthesis:
    """A netlist.

    Attributes:
        made: the stage's folder, with ``netlist.json``.
        cells: what it takes.
    """

    made: Made
    cells: Cells

    @property
    def netlist(self) -> Path:
        return self.made.folder / NETLIST


def synthesize(
    folder: BuildFolder,
    rtlil: str,
    board: Board,
    *,
    on_log: Callable[[Path], None] = lambda log: None,
    on_first_run: Callable[[tools.Tool], None] | None = None,
) -> Synthesis:
    """The netlist of a circuit whose module ``top`` has the board's pads as ports.

    Raises:
        ToolMissing, ToolFailed: yosys.
        UserError: it does not fit the chip.
    """
    yosys = tools.find("yosys")
    script = SCRIPTS[board.family]

    def make(place: Path) -> None:
        (place / "top.il").write_text(rtlil)
        log = place / "yosys.log"
        on_log(log)
        # `-l`: the wheel's yosys goes silent once ABC has run
        arguments = ["-q", "-l", "yosys.log", "-p", script]
        tools.run(yosys, arguments, cwd=place, log=place / "output.log", on_first_run=on_first_run)

    made = folder.stage("synthesize", {"rtlil": rtlil, "script": script, "yosys": yosys.version}, make)
    cells = _cells(made.folder / STATISTICS)
    excess = cells.excess(board)
    if excess:
        raise too_large(board, excess)
    return Synthesis(made, cells)


def too_large(board: Board, excess: str) -> UserError:
    return user_error(
        "too-big",
        f"the circuit must fit {board.device.name}; it needs {excess}",
        hint="fewer lanes with --multipliers, or a larger board (`onnx-hw boards`)",
        stage="synthesize",
        exit_code=ExitCode.DOES_NOT_FIT,
    )


def _cells(statistics: Path) -> Cells:
    """From yosys' own statistics. A carry cell is two look-up tables, 16×4 bits of memory are four."""
    counts = json.loads(statistics.read_text())["design"]["num_cells_by_type"]
    return Cells(
        lut4=counts.get("LUT4", 0) + 2 * counts.get("CCU2C", 0) + 4 * counts.get("TRELLIS_DPR16X4", 0),
        ff=counts.get("TRELLIS_FF", 0),
        dsp=counts.get("MULT18X18D", 0),
        bram=counts.get("DP16KD", 0) + counts.get("PDPW16KD", 0),
    )
