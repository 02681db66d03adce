"""ULX3S with an LFE5U-85F."""

from amaranth_boards.ulx3s import ULX3S_85F_Platform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader
from onnx_hw_boards.memory import WeightMemory
from onnx_hw_boards.sdram import SdramMemory

FLASH = WeightMemory(bytes=16 << 20, offset=4 << 20)  # IS25LP128F; the bitstream takes less than 2 MiB

BOARD = board(
    "ulx3s",
    ULX3S_85F_Platform,
    title="ULX3S with an LFE5U-85F",
    link=Uart(3_000_000),  # its FT231X has no more (FTDI, DS_FT231X)
    loader=openfpgaloader("-b", "ulx3s"),
    default_clock_mhz=60.0,
    memory=FLASH,
    # MT48LC16M16A2, IS42S16160G or AS4C16M16SA; of AS4C32M16 every row is used by half
    sdram=SdramMemory(word_bytes=2, columns=512, rows=8192, flash=FLASH),
)
