"""Verilog of a network behind SPI, no bitstream."""

from onnx_hw_boards.verilog_board import ShellKind, verilog

BOARD = verilog("verilog_spi", ShellKind.SPI, "Verilog of a network behind SPI; no bitstream")
