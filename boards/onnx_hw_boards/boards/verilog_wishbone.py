"""Verilog of a network on a Wishbone bus, no bitstream."""

from onnx_hw_boards.verilog_board import ShellKind, verilog

BOARD = verilog("verilog_wishbone", ShellKind.WISHBONE, "Verilog of a network on a Wishbone bus; no bitstream")
