"""Tang Nano 9K with a GW1NR-9C."""

from amaranth_boards.tang_nano_9k import TangNano9kPlatform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader

BOARD = board(
    "tang_nano_9k",
    TangNano9kPlatform,
    title="Tang Nano 9K with a GW1NR-9C",
    link=Uart(1_000_000),
    loader=openfpgaloader("-b", "tangnano9k"),
    default_clock_mhz=27.0,
)
