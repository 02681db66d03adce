"""What the digits of the examples get on each board: listed at once, since to find it out takes seconds.

``onnx-hw boards examples/digits/digits.onnx`` finds it out; a test compares.
"""

from __future__ import annotations

DIGITS_ON_BOARDS = {
    "colorlight_i5": "3 lanes, 152 frames/s, bounded by the link",
    "colorlight_i9": "3 lanes, 152 frames/s, bounded by the link",
    "ecp5": "93 lanes, 312,500 frames/s, bounded by the circuit",
    "ecpix5": "4 lanes, 3,947 frames/s, bounded by the link",
    "gw1n9c": "11 lanes, 11,719 frames/s, bounded by the circuit",
    "hx8k": "9 lanes, 15,625 frames/s, bounded by the circuit",
    "hx8k_b_evn": "4 lanes, 3,947 frames/s, bounded by the link",
    "icebreaker": "4 lanes, 1,316 frames/s, bounded by the link",
    "icepi_zero": "4 lanes, 3,947 frames/s, bounded by the link",
    "icesugar": "3 lanes, 152 frames/s, bounded by the link",
    "icesugar_pro": "3 lanes, 152 frames/s, bounded by the link",
    "tang_nano_20k": "3 lanes, 1,316 frames/s, bounded by the link",
    "tang_nano_9k": "3 lanes, 1,316 frames/s, bounded by the link",
    "tang_primer_20k": "3 lanes, 1,316 frames/s, bounded by the link",
    "tinyfpga_bx": "3 lanes, 1,316 frames/s, bounded by the link",
    "ulx3s": "4 lanes, 3,947 frames/s, bounded by the link",
    "ulx3s_12f": "4 lanes, 3,947 frames/s, bounded by the link",
    "up5k": "6 lanes, 5,208 frames/s, bounded by the circuit",
    "upduino3": "4 lanes, 1,316 frames/s, bounded by the link",
    "verilog": "93 lanes, 312,500 frames/s, bounded by the circuit",
    "verilog_axi_stream": "93 lanes, 312,500 frames/s, bounded by the circuit",
    "verilog_spi": "93 lanes, 312,500 frames/s, bounded by the circuit",
    "verilog_wishbone": "93 lanes, 312,500 frames/s, bounded by the circuit",
}
