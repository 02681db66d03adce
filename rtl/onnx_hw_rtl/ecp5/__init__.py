"""The ECP5's hard blocks as Amaranth instances, and Verilog models of them for simulation.

yosys and nextpnr know these blocks by name only; the Verilog files beside this one state what they do, written from the
vendor's documentation (sysDSP usage guide TN1267, memory usage guide TN1264) for the modes used here. They are never
part of a bitstream.
"""

from onnx_hw_rtl.ecp5.block_ram import GEOMETRIES, Geometry, best_geometry, block_rom
from onnx_hw_rtl.ecp5.multiplier import multiplier

__all__ = ["GEOMETRIES", "Geometry", "best_geometry", "block_rom", "multiplier"]
