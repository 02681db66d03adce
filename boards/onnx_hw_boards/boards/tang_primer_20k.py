"""Tang Primer 20K with a GW2A-18C."""

from amaranth_boards.tang_primer_20k import TangPrimer20kPlatform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader

BOARD = board(
    "tang_primer_20k",
    TangPrimer20kPlatform,
    title="Tang Primer 20K with a GW2A-18C",
    link=Uart(1_000_000),
    loader=openfpgaloader("-b", "tangprimer20k"),
    default_clock_mhz=27.0,
)
