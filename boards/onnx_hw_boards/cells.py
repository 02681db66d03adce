"""Numbers of a chip's cells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cells:
    """Numbers of cells that a chip has, or that a design takes.

    Attributes:
        lut: look-up tables of four inputs.
        ff: flip-flops.
        dsp: hardware multipliers, of the family's size.
        bram: block RAMs, of the family's size.
        logic: logic cells, where a look-up table and a flip-flop share one; 0 where there are enough of both.
    """

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram: int = 0
    logic: int = 0

    def __add__(self, other: Cells) -> Cells:
        return Cells(
            self.lut + other.lut,
            self.ff + other.ff,
            self.dsp + other.dsp,
            self.bram + other.bram,
            self.logic + other.logic,
        )

    def __mul__(self, times: int) -> Cells:
        return Cells(self.lut * times, self.ff * times, self.dsp * times, self.bram * times, self.logic * times)
