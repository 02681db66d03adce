"""Verilog of a network behind SPI, no bitstream."""

from onnx_hw_boards.verilog_board import Shell, verilog

BOARD = verilog("verilog_spi", Shell.SPI, "Verilog of a network behind SPI; no bitstream")
