"""ULX3S with an LFE5U-85F."""

from amaranth_boards.ulx3s import ULX3S_85F_Platform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader
from onnx_hw_boards.memory import WeightMemory

BOARD = board(
    "ulx3s",
    ULX3S_85F_Platform,
    title="ULX3S with an LFE5U-85F",
    link=Uart(3_000_000),  # its FT231X has no more (FTDI, DS_FT231X)
    loader=openfpgaloader("-b", "ulx3s"),
    default_clock_mhz=60.0,
    memory=WeightMemory(bytes=16 << 20, offset=4 << 20),  # IS25LP128F; the bitstream takes less than 2 MiB
)
