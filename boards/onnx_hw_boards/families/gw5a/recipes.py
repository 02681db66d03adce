"""Gowin Arora V: multipliers of 12 × 12 bits, two for 27 × 18; block RAMs of 18 kbit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.device import ChipType, PackagedChip
from onnx_hw_boards.families.clock_source import Clocking, Settings
from onnx_hw_boards.families.family import Family, Fill, Packing, Placement
from onnx_hw_boards.families.gowin.recipes import GOWIN
from onnx_hw_boards.families.gw5a.cost import cost, cost_without_memory_in_tables
from onnx_hw_boards.families.gw5a.mapping_sources import BLOCK_RAMS, WIDER_TABLES
from onnx_hw_boards.families.gw5a.timing import slowest_path
from onnx_hw_boards.families.shell_mapping import with_few_tables_around


def _no_pll(_oscillator: Fraction, _mhz: Fraction) -> Settings:
    """Yield nothing: Apycula 0.32 has no PLL of a GW5AST-138C, and fails on the numbers of a PLLA of a GW5A-25A."""
    yield from ()


def _mapper(*, distributed_memory: bool) -> tuple[str, ...]:
    """Return yosys' commands: ``synth_gowin`` with block RAMs of the kinds that nextpnr times, and tables likewise."""
    synthesis = "synth_gowin -family gw5a -noiopads -top top"
    tables = "-lib +/gowin/lutrams.txt " if distributed_memory else ""
    whole, *rest = with_few_tables_around(synthesis)
    assert whole == f"{synthesis} -run begin:map_luts"
    return (
        f"{synthesis} -run begin:map_ram",
        f"memory_libmap {tables}-lib block_rams.txt",
        "techmap -map +/gowin/lutrams_map.v -map +/gowin/brams_map_gw5a.v",
        f"{synthesis} -run map_ffram:map_luts",
        *rest,
        "iopadmap -bits -inpad IBUF O:I -outpad OBUF I:O -toutpad TBUF ~OEN:I:O top",
        "techmap -map wider_tables.v",
        "clean",
    )


ARORA_V = Family(
    name="Gowin Arora V",
    folder="gw5a",
    cells={
        **{cell: taken for cell, taken in GOWIN.cells.items() if not taken.dsp},
        "MULT12X12": Cells(dsp=1),
        "MULTALU27X18": Cells(dsp=2),
    },
    cost=cost,
    mappers={"abc9": _mapper(distributed_memory=True)},
    sources={"wider_tables.v": WIDER_TABLES, "block_rams.txt": BLOCK_RAMS},
    placement=Placement(
        tool=GOWIN.placement.tool,
        constraints=GOWIN.placement.constraints,
        dialect=GOWIN.placement.dialect,
        chip=("--device", "{package}"),
        options=("--router", "router2"),
        files=GOWIN.placement.files,
        placed=GOWIN.placement.placed,
        slowest_path=slowest_path,
    ),
    # Pins for configuration by a processor serve the design: the clock and the link of boards are at some of them.
    packing=Packing("gowin_pack", ("-d", "{option}", "--cpu_as_gpio", "-o", "{bitstream}", "{placed}"), ".fs"),
    clocking=Clocking(_no_pll, reset_us=1),
    fill=Fill(
        comfortable={"lut": 0.7, "ff": 0.6, "dsp": 0.6, "bram": 0.8},
        most={"lut": 0.85, "ff": 0.8, "bram": 0.95},
    ),
    bram_bits=18 * 1024,
)

ARORA_V_25 = replace(
    ARORA_V,
    name="Gowin Arora V, 25 k",
    cells={cell: taken for cell, taken in ARORA_V.cells.items() if cell != "RAM16SDP4"},
    cost=cost_without_memory_in_tables,
    mappers={"abc9": _mapper(distributed_memory=False)},
    # The pins of the serial configuration port are always the design's on this chip.
    placement=replace(ARORA_V.placement, options=(*ARORA_V.placement.options, "--vopt", "sspi_as_gpio")),
    packing=replace(ARORA_V.packing, arguments=("-d", "{option}", "--sspi_as_gpio", *ARORA_V.packing.arguments[2:])),
    primitives_name="WITHOUT_MEMORY_IN_TABLES",
    deepest_at_once=9,
)

# Gowin DS1103 and DS1104, table 1-1
GW5A_25A = ChipType("GW5A-25A", ARORA_V_25, "GW5A-25A", Cells(lut=23_040, ff=23_040, dsp=56, bram=56))
GW5AST_138C = ChipType("GW5AST-138C", ARORA_V, "GW5AST-138C", Cells(lut=138_240, ff=138_240, dsp=596, bram=340))

CHIPS = {chip.name: chip for chip in (GW5A_25A, GW5AST_138C)}
"""The chips, by the ``family`` of a platform class."""


def packaged_chip(platform: Any) -> PackagedChip | None:
    """Return the chip of a platform class, whose ``part`` names the package; None where it is of another family."""
    chip = CHIPS.get(getattr(platform, "family", None))  # type: ignore[arg-type]
    return None if chip is None else PackagedChip(chip, platform.part)
