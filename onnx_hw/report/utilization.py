"""Resources that a build takes of its chip: of the synthesized circuit where there is one, else as estimated."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.report.model import ChipEstimate, Report
from onnx_hw.report.netlist_sections import Synthesis

NOTHING = ChipEstimate(0, 0, 0, 0, 0)


@dataclass(frozen=True)
class ResourceUse:
    """Use of one resource: its short name, what it is in words, and how many cells are used and available."""

    name: str
    words: str
    used: int
    available: int

    @property
    def share(self) -> float:
        return self.used / self.available if self.available else 1.0


def usage(report: Report) -> tuple[ResourceUse, ...]:
    """Return the use of every resource that is used."""
    board = report.board
    used: Synthesis | ChipEstimate | None = report.synthesis
    if used is None:
        used = report.design.estimate if report.design is not None else NOTHING
    each = (
        ResourceUse("LUT4", "look-up tables", used.lut4, board.lut4),
        ResourceUse("FF", "flip-flops", used.ff, board.ff),
        ResourceUse("LC", "logic cells", used.logic_cells, board.logic_cells),
        ResourceUse("DSP", "multipliers", used.dsp, board.dsp),
        ResourceUse("BRAM", "block RAMs", used.bram, board.bram),
    )
    return tuple(use for use in each if use.used)
