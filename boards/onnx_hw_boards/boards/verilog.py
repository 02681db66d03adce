"""Verilog of a network with its streams, no bitstream."""

from onnx_hw_boards.verilog_board import Shell, verilog

BOARD = verilog("verilog", Shell.STREAMS, "Verilog of a network with its streams; no bitstream")
