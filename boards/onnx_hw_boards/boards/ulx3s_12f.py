"""ULX3S with an LFE5U-12F."""

from amaranth_boards.ulx3s import ULX3S_12F_Platform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader

BOARD = board(
    "ulx3s_12f",
    ULX3S_12F_Platform,
    title="ULX3S with an LFE5U-12F",
    link=Uart(3_000_000),  # its FT231X has no more (FTDI, DS_FT231X)
    loader=openfpgaloader("-b", "ulx3s"),
    default_clock_mhz=60.0,
)
