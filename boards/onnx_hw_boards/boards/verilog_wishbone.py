"""Verilog of a network on a Wishbone bus, no bitstream."""

from onnx_hw_boards.verilog_board import Shell, verilog

BOARD = verilog("verilog_wishbone", Shell.WISHBONE, "Verilog of a network on a Wishbone bus; no bitstream")
