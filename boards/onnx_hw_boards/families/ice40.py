"""Lattice iCE40: block RAMs of 4 kbit and no distributed memory; multipliers of 16 × 16 bits in UltraPlus chips only.

Look-up table, flip-flop and carry share a logic cell, of which a flip-flop takes a whole one unless a table feeds it:
designs end at logic cells before they end at look-up tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_hw_boards.device import Cells, Device
from onnx_hw_boards.families.ecp5_cost import cost
from onnx_hw_boards.families.family import Family, Packing, Placement, Shares

__all__ = ["DEVICES", "HX4K", "HX8K", "ICE40_HX", "ICE40_UP", "LP8K", "UP5K"]


def _pcf(pin_of: Mapping[str, str], clock_mhz: float, _io_type: str) -> str:
    lines = [f"set_frequency clk {clock_mhz:g}"]
    lines += [f"set_io {port} {pin}" for port, pin in pin_of.items()]
    return "\n".join(lines) + "\n"


_KINDS = ("", "E", "SR", "R", "SS", "S", "ESR", "ER", "ESS", "ES")  # enable; reset and set, synchronous or not

_CELLS = {
    "SB_LUT4": Cells(lut=1),
    **{f"SB_DFF{edge}{kind}": Cells(ff=1) for edge in ("", "N") for kind in _KINDS},
    "SB_MAC16": Cells(dsp=1),
    **{f"SB_RAM40_4K{edges}": Cells(bram=1) for edges in ("", "NR", "NW", "NRNW")},
}

_PLACEMENT = Placement(
    tool="nextpnr-ice40",
    constraints="pins.pcf",
    dialect=_pcf,
    chip=("{option}", "--package", "{package}"),
    options=(),
    files=("--json", "{netlist}", "--pcf", "{constraints}", "--asc", "{placed}"),
    placed="top.asc",
)

_PACKING = Packing("icepack", ("{placed}", "{bitstream}"), ".bin")

# A design takes half as many logic cells again as the look-up tables of its estimate, which knows no flip-flops; and up
# to four blocks for one of 18 kbit, or for distributed memory.
_SHARES = Shares(lut=0.42, dsp=1.0, bram=0.25, most_lut=0.47, most_bram=0.3)

ICE40_UP = Family(
    name="iCE40 UltraPlus",
    primitives="ice40",
    cells=_CELLS,
    cost=cost,
    mappers={"abc": ("synth_ice40 -dsp -device u -top top",)},
    placement=_PLACEMENT,
    packing=_PACKING,
    shares=_SHARES,
)

ICE40_HX = Family(
    name="iCE40 HX",
    primitives="ice40",
    cells=_CELLS,
    cost=cost,
    mappers={"abc": ("synth_ice40 -device hx -top top",)},
    placement=_PLACEMENT,
    packing=_PACKING,
    shares=replace(_SHARES, lut=0.45, most_lut=0.52, luts_per_multiplier=110),
)

# Lattice FPGA-DS-02008 (UltraPlus) and FPGA-DS-02029 (LP/HX), table 1.1
UP5K = Device("iCE40UP5K", ICE40_UP, "--up5k", Cells(lut=5_280, ff=5_280, dsp=8, bram=30))
HX8K = Device("iCE40HX8K", ICE40_HX, "--hx8k", Cells(lut=7_680, ff=7_680, dsp=0, bram=32))
HX4K = Device("iCE40HX4K", ICE40_HX, "--hx8k", Cells(lut=3_520, ff=3_520, dsp=0, bram=20))
LP8K = Device("iCE40LP8K", ICE40_HX, "--lp8k", HX8K.cells)

DEVICES = (UP5K, HX4K, HX8K, LP8K)
