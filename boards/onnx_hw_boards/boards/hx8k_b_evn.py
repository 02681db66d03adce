"""iCE40HX-8K breakout board."""

from dataclasses import replace

from amaranth_boards.ice40_hx8k_b_evn import ICE40HX8KBEVNPlatform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import ICEPROG

BOARD = board(
    "hx8k_b_evn",
    ICE40HX8KBEVNPlatform,
    title="iCE40HX-8K breakout board",
    link=Uart(12_000_000),  # its FT2232H has up to 12 Mbaud (FTDI, DS_FT2232H); 4 cycles of the clock
    loader=replace(ICEPROG, memory=("-S",)),  # with the jumpers J6 set for it,
    default_clock_mhz=48.0,
)
