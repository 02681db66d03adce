"""ECPIX-5 with an LFE5UM5G-85F."""

from amaranth_boards.ecpix5 import ECPIX585Platform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader

BOARD = board(
    "ecpix5",
    ECPIX585Platform,
    title="ECPIX-5 with an LFE5UM5G-85F",
    link=Uart(12_000_000),  # its FT2232H has up to 12 Mbaud (FTDI, DS_FT2232H); 5 cycles of the clock
    loader=openfpgaloader("-b", "ecpix5"),
    default_clock_mhz=60.0,
)
