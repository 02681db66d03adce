"""Verilog of a network between AXI4-Streams, no bitstream."""

from onnx_hw_boards.verilog_board import Shell, verilog

BOARD = verilog("verilog_axi_stream", Shell.AXI_STREAM, "Verilog of a network between AXI4-Streams; no bitstream")
