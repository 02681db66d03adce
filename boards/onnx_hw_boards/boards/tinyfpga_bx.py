"""TinyFPGA BX with an iCE40LP8K."""

from amaranth.build import Attrs
from amaranth_boards.resources import UARTResource
from amaranth_boards.tinyfpga_bx import TinyFPGABXPlatform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import TINYPROG


class TinyFPGABXLinkedPlatform(TinyFPGABXPlatform):
    """A serial adapter of 3.3 V on the header: its TX to pin 14, its RX to pin 15."""

    resources = (
        *TinyFPGABXPlatform.resources,
        UARTResource(0, rx="14", tx="15", conn=("gpio", 0), attrs=Attrs(IO_STANDARD="SB_LVCMOS", PULLUP=1)),
    )


BOARD = board(
    "tinyfpga_bx",
    TinyFPGABXLinkedPlatform,
    title="TinyFPGA BX with an iCE40LP8K, serial adapter on pins",
    link=Uart(1_000_000),
    loader=TINYPROG,
    default_clock_mhz=32.0,
)
