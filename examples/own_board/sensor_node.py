"""A board of one's own: an iCE40UP5K with a 12 MHz oscillator and a USB serial chip, given with ``--board FILE``."""

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import LatticeICE40Platform
from amaranth_boards.resources import LEDResources, UARTResource

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import ICEPROG


class SensorNodePlatform(LatticeICE40Platform):
    """Pins of the board, as in its schematic."""

    device = "iCE40UP5K"
    package = "SG48"
    default_clk = "clk12"
    resources = [
        Resource("clk12", 0, Pins("35", dir="i"), Clock(12e6), Attrs(GLOBAL=True, IO_STANDARD="SB_LVCMOS")),
        *LEDResources(pins="39", invert=True, attrs=Attrs(IO_STANDARD="SB_LVCMOS")),
        UARTResource(0, rx="20", tx="18", attrs=Attrs(IO_STANDARD="SB_LVCMOS", PULLUP=1)),
    ]
    connectors = []


BOARD = board(
    "sensor_node",
    SensorNodePlatform,
    title="Sensor node with an iCE40UP5K",
    link=Uart(1_000_000),
    loader=ICEPROG,
    default_clock_mhz=24.0,
)
