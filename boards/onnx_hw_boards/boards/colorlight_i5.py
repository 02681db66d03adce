"""Colorlight i5 7.0 in its extension board, whose debugger carries the serial port."""

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import LatticeECP5Platform
from amaranth_boards.resources import UARTResource

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader


class ColorlightI5Platform(LatticeECP5Platform):
    """Pins: https://github.com/wuxx/Colorlight-FPGA-Projects, README.md and src/i5/uart_tx/top.lpf."""

    device, package, speed, default_clk = "LFE5U-25F", "BG381", "6", "clk25"
    connectors = ()
    resources = (
        Resource("clk25", 0, Pins("P3", dir="i"), Clock(25e6), Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="H18", tx="J17", attrs=Attrs(IO_TYPE="LVCMOS33")),
    )


BOARD = board(
    "colorlight_i5",
    ColorlightI5Platform,
    title="Colorlight i5 with an LFE5U-25F",
    link=Uart(115_200),
    loader=openfpgaloader("-b", "colorlight-i5"),
    default_clock_mhz=60.0,
)
