"""Resources that a build takes of its chip: of the synthesized circuit where there is one, else as estimated."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.report.model import Report


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
    board, synthesis, design = report.board, report.synthesis, report.design
    nodes, fifos = (design.nodes, design.fifos) if design is not None else ((), ())
    lut = synthesis.lut4 if synthesis else sum(core.lut for core in nodes) + sum(fifo.lut for fifo in fifos)
    ff = synthesis.ff if synthesis else sum(core.ff for core in nodes) + sum(fifo.ff for fifo in fifos)
    dsp = synthesis.dsp if synthesis else sum(core.dsp for core in nodes)
    bram = synthesis.bram if synthesis else sum(core.bram for core in nodes) + sum(fifo.bram for fifo in fifos)
    each = (
        ResourceUse("LUT4", "look-up tables", lut, board.lut4),
        ResourceUse("FF", "flip-flops", ff, board.ff),
        ResourceUse("DSP", "multipliers", dsp, board.dsp),
        ResourceUse("BRAM", "block RAMs", bram, board.bram),
    )
    return tuple(use for use in each if use.used)
