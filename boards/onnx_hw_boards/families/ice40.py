"""Lattice iCE40: block RAMs of 4 kbit and no distributed memory; multipliers of 16 × 16 bits in UltraPlus chips only.

Look-up table, flip-flop and carry share a logic cell, of which a flip-flop takes a whole one unless a table feeds it:
designs end at logic cells before they end at look-up tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.device import ChipType
from onnx_hw_boards.families.family import Family, Fill, Packing, Placement
from onnx_hw_boards.families.ice40_cost import cost, cost_without_multipliers
from onnx_hw_boards.families.ice40_packing import logic_cells

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
    sites={"ICESTORM_LC": "logic cells", "ICESTORM_RAM": "block RAMs", "ICESTORM_DSP": "multipliers", "SB_IO": "pins"},
)

_PACKING = Packing("icepack", ("{placed}", "{bitstream}"), ".bin")

_FILL = Fill(comfortable={"logic": 0.8, "bram": 0.9}, most={"logic": 0.87})

# Sixteen words of eight bits in flip-flops take more logic cells than a block RAM is worth, a 30th of the chip.
_DEEPEST_AT_ONCE = 9

ICE40_UP = Family(
    name="iCE40 UltraPlus",
    primitives="ice40",
    cells=_CELLS,
    cost=cost,
    mappers={"abc": ("synth_ice40 -dsp -device u -top top",)},
    placement=_PLACEMENT,
    packing=_PACKING,
    fill=_FILL,
    logic_cells=logic_cells,
    deepest_at_once=_DEEPEST_AT_ONCE,
)

ICE40_HX = Family(
    name="iCE40 HX",
    primitives="ice40",
    cells=_CELLS,
    cost=cost_without_multipliers,
    mappers={"abc": ("synth_ice40 -device hx -top top",)},
    placement=_PLACEMENT,
    packing=_PACKING,
    fill=_FILL,
    logic_cells=logic_cells,
    deepest_at_once=_DEEPEST_AT_ONCE,
)

# Lattice FPGA-DS-02008 (UltraPlus) and FPGA-DS-02029 (LP/HX), table 1.1
UP5K = ChipType("iCE40UP5K", ICE40_UP, "--up5k", Cells(lut=5_280, ff=5_280, dsp=8, bram=30, logic=5_280))
HX8K = ChipType("iCE40HX8K", ICE40_HX, "--hx8k", Cells(lut=7_680, ff=7_680, dsp=0, bram=32, logic=7_680))
HX4K = ChipType("iCE40HX4K", ICE40_HX, "--hx8k", Cells(lut=3_520, ff=3_520, dsp=0, bram=20, logic=3_520))
LP8K = ChipType("iCE40LP8K", ICE40_HX, "--lp8k", HX8K.cells)

DEVICES = (UP5K, HX4K, HX8K, LP8K)
