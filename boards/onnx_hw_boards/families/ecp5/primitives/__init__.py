"""The ECP5's hard blocks as Amaranth instances, and Verilog models of them for simulation.

yosys and nextpnr know these blocks by name only; the Verilog files in this folder state what they do, written from the
vendor's documentation (sysDSP usage guide TN1267, memory usage guide TN1264) for the modes used here. They are never
part of a bitstream.
"""

from onnx_hw_boards.families.ecp5.primitives.block_ram import rom
from onnx_hw_boards.families.ecp5.primitives.cells import configuration_clock, flip_flop, gated_sum, multiplier, pll
from onnx_hw_rtl.target import Primitives

PRIMITIVES = Primitives(
    multiplier=multiplier,
    rom=rom,
    flip_flop=flip_flop,
    gated_sum=gated_sum,
    pll=pll,
    configuration_clock=configuration_clock,
)
