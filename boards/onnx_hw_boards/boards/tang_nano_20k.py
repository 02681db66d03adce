"""Tang Nano 20K with a GW2AR-18C."""

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import GowinPlatform
from amaranth_boards.resources import UARTResource

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader


class TangNano20kPlatform(GowinPlatform):
    """Pins: https://github.com/sipeed/TangNano-20K-example, uart/src/top.cst."""

    part, family, default_clk = "GW2AR-LV18QN88C8/I7", "GW2AR-18C", "clk27"
    connectors = ()
    resources = (
        Resource("clk27", 0, Pins("4", dir="i"), Clock(27e6), Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="70", tx="69", attrs=Attrs(IO_TYPE="LVCMOS33")),
    )


BOARD = board(
    "tang_nano_20k",
    TangNano20kPlatform,
    title="Tang Nano 20K with a GW2AR-18C",
    link=Uart(1_000_000),
    loader=openfpgaloader("-b", "tangnano20k"),
    default_clock_mhz=27.0,
)
