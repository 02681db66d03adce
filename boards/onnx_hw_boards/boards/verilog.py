"""Verilog of a network with its streams, no bitstream."""

from onnx_hw_boards.verilog_board import ShellKind, verilog

BOARD = verilog("verilog", ShellKind.STREAMS, "Verilog of a network with its streams; no bitstream")
