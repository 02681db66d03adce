"""Icepi Zero 1.3 with an LFE5U-25F, a Raspberry Pi at its header."""

from amaranth_boards.icepi_zero import IcepiZero1_3Platform

from onnx_hw_boards.linked_board import board
from onnx_hw_boards.links.spi import Spi, spi_pads
from onnx_hw_boards.loader import openfpgaloader


class IcepiZeroSpiPlatform(IcepiZero1_3Platform):
    """Pins of the header with the numbers of a Raspberry Pi's GPIO, which carry its SPI0: spidev0.0; 25 is the IRQ."""

    pads = spi_pads(cs_n="8", copi="10", cipo="9", sck="11", irq="25", conn=("gpio", 0), IO_TYPE="LVCMOS33")
    resources = (*IcepiZero1_3Platform.resources, pads)


BOARD = board(
    "icepi_zero_spi",
    IcepiZeroSpiPlatform,
    title="Icepi Zero 1.3 with an LFE5U-25F, SPI on the header",
    link=Spi(15_000_000),
    loader=openfpgaloader("-b", "icepi-zero"),
    default_clock_mhz=60.0,
)
