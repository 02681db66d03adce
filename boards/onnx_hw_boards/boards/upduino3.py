"""UPduino 3 with an iCE40UP5K: its jumper OSC closed, so that 12 MHz arrive at pin 20."""

from amaranth.build import Attrs
from amaranth_boards.resources import UARTResource
from amaranth_boards.upduino_v3 import UpduinoV3Platform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import ICEPROG


class UPduino3Platform(UpduinoV3Platform):
    """A serial adapter of 3.3 V on the header: its TX to gpio_46, its RX to gpio_47."""

    default_clk = "clk12"
    resources = (
        *UpduinoV3Platform.resources,
        UARTResource(0, rx="19", tx="18", conn=("j", 1), attrs=Attrs(IO_STANDARD="SB_LVCMOS", PULLUP=1)),
    )


BOARD = board(
    "upduino3",
    UPduino3Platform,
    title="UPduino 3 with an iCE40UP5K, serial adapter on pins",
    link=Uart(1_000_000),
    loader=ICEPROG,
    default_clock_mhz=24.0,
)
