"""ECPIX-5 with an LFE5UM5G-85F, an SPI controller at its connector PMOD 0."""

from amaranth_boards.ecpix5 import ECPIX585Platform

from onnx_hw_boards.linked_board import board
from onnx_hw_boards.links.spi import Spi, spi_pads
from onnx_hw_boards.loader import openfpgaloader


class ECPIX5SpiPlatform(ECPIX585Platform):
    """Pins of PMOD 0 as Digilent's Pmod Interface Specification 1.2 has them (type 2A, expanded SPI): 7 is INT."""

    pads = spi_pads(cs_n="1", copi="2", cipo="3", sck="4", irq="7", conn=("pmod", 0), IO_TYPE="LVCMOS33")
    resources = (*ECPIX585Platform.resources, pads)


BOARD = board(
    "ecpix5_spi",
    ECPIX5SpiPlatform,
    title="ECPIX-5 with an LFE5UM5G-85F, SPI at PMOD 0",
    link=Spi(15_000_000),
    loader=openfpgaloader("-b", "ecpix5"),
    default_clock_mhz=60.0,
)
