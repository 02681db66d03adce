"""Verilog of a network between AXI4-Streams, no bitstream."""

from onnx_hw_boards.verilog_board import ShellKind, verilog

BOARD = verilog("verilog_axi_stream", ShellKind.AXI_STREAM, "Verilog of a network between AXI4-Streams; no bitstream")
