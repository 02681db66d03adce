"""Icepi Zero 1.3 with an LFE5U-25F."""

from amaranth_boards.icepi_zero import IcepiZero1_3Platform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader

BOARD = board(
    "icepi_zero",
    IcepiZero1_3Platform,
    title="Icepi Zero 1.3 with an LFE5U-25F",
    link=Uart(3_000_000),
    loader=openfpgaloader("-b", "icepi-zero"),
    default_clock_mhz=60.0,
)
