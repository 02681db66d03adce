"""The chips and what they hold."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LFE5U_25F", "LFE5U_45F", "LFE5U_85F", "Cells", "Device"]


@dataclass(frozen=True)
class Cells:
    """What a chip has, or what a design takes.

    Attributes:
        lut: look-up tables of four inputs.
        ff: flip-flops.
        dsp: hardware multipliers, 18 × 18 bit.
        bram: block RAMs of 18 kbit.
    """

    lut: int
    ff: int
    dsp: int
    bram: int


@dataclass(frozen=True)
class Device:
    """A chip.

    Attributes:
        name: as its maker calls it.
        family: which primitives it has and which tools build for it.
        option: how nextpnr is told.
        cells: what it holds (Lattice FPGA-DS-02012, table 1.1).
    """

    name: str
    family: str
    option: str
    cells: Cells


LFE5U_25F = Device("LFE5U-25F", "ecp5", "--25k", Cells(lut=24_288, ff=24_288, dsp=28, bram=56))
LFE5U_45F = Device("LFE5U-45F", "ecp5", "--45k", Cells(lut=43_848, ff=43_848, dsp=72, bram=108))
LFE5U_85F = Device("LFE5U-85F", "ecp5", "--85k", Cells(lut=83_640, ff=83_640, dsp=156, bram=208))
