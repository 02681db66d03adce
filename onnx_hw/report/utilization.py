"""What a build takes of its chip: of the synthesized circuit where there is one, else as estimated."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.report.model import Report


@dataclass(frozen=True)
class Use:
    """Of one resource.

    Attributes:
        name, words: the short name, and what it is.
    """

    name: str
    words: str
    used: int
    available: int

    @property
    def share(self) -> float:
        return self.used / self.available if self.available else 1.0


def usage(report: Report) -> tuple[Use, ...]:
    """Of every resource that is used."""
    board, made, design = report.board, report.synthesis, report.design
    nodes, fifos = (design.nodes, design.fifos) if design is not None else ((), ())
    lut = made.lut4 if made else sum(core.lut for core in nodes) + sum(fifo.lut for fifo in fifos)
    ff = made.ff if made else sum(core.ff for core in nodes) + sum(fifo.ff for fifo in fifos)
    dsp = made.dsp if made else sum(core.dsp for core in nodes)
    bram = made.bram if made else sum(core.bram for core in nodes) + sum(fifo.bram for fifo in fifos)
    each = (
        Use("LUT4", "look-up tables", lut, board.lut4),
        Use("FF", "flip-flops", ff, board.ff),
        Use("DSP", "multipliers", dsp, board.dsp),
        Use("BRAM", "block RAMs", bram, board.bram),
    )
    return tuple(use for use in each if use.used)
