"""Colorlight i9 7.2 in the extension board of an i5, whose debugger carries the serial port."""

from onnx_hw_boards.boards.colorlight_i5 import ColorlightI5Platform
from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader


class ColorlightI9Platform(ColorlightI5Platform):
    """Pins as on an i5: https://github.com/wuxx/Colorlight-FPGA-Projects, colorlight_i9_v7.2.md."""

    device = "LFE5U-45F"


BOARD = board(
    "colorlight_i9",
    ColorlightI9Platform,
    title="Colorlight i9 with an LFE5U-45F",
    link=Uart(115_200),
    loader=openfpgaloader("-b", "colorlight-i9"),
    default_clock_mhz=60.0,
)
