"""Lattice ECP5: multipliers of 18 × 18 bits, block RAMs of 18 kbit, distributed memory of 16 × 4."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.device import ChipType
from onnx_hw_boards.families.ecp5_cost import cost
from onnx_hw_boards.families.family import Family, Fill, Packing, Placement
from onnx_hw_boards.families.shell_mapping import with_few_tables_around

__all__ = ["DEVICES", "ECP5", "LFE5U_12F", "LFE5U_25F", "LFE5U_45F", "LFE5U_85F"]


def _lpf(pin_of: Mapping[str, str], clock_mhz: float, io_type: str) -> str:
    lines = [f'FREQUENCY PORT "clk" {clock_mhz:g} MHZ;']
    for port, pin in pin_of.items():
        lines.append(f'LOCATE COMP "{port}" SITE "{pin}";')
        lines.append(f'IOBUF PORT "{port}" IO_TYPE={io_type};')
    return "\n".join(lines) + "\n"


ECP5 = Family(
    name="ECP5",
    primitives="ecp5",
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
    # With 85 of 156 multipliers a network is routed in two minutes, with 130 in five to eight.
    fill=Fill(comfortable={"lut": 0.7, "dsp": 0.6, "bram": 0.95}, most={"lut": 0.85}),
)

# Lattice FPGA-DS-02012, table 1.1. In open tools a 12F has all of a 25F, whose die it is; only this much is promised.
LFE5U_12F = ChipType("LFE5U-12F", ECP5, "--12k", Cells(lut=12_144, ff=12_144, dsp=28, bram=32))
LFE5U_25F = ChipType("LFE5U-25F", ECP5, "--25k", Cells(lut=24_288, ff=24_288, dsp=28, bram=56))
LFE5U_45F = ChipType("LFE5U-45F", ECP5, "--45k", Cells(lut=43_848, ff=43_848, dsp=72, bram=108))
LFE5U_85F = ChipType("LFE5U-85F", ECP5, "--85k", Cells(lut=83_640, ff=83_640, dsp=156, bram=208))
LFE5UM5G_45F = ChipType("LFE5UM5G-45F", ECP5, "--um5g-45k", LFE5U_45F.cells)
LFE5UM5G_85F = ChipType("LFE5UM5G-85F", ECP5, "--um5g-85k", LFE5U_85F.cells)

DEVICES = (LFE5U_12F, LFE5U_25F, LFE5U_45F, LFE5U_85F, LFE5UM5G_45F, LFE5UM5G_85F)
