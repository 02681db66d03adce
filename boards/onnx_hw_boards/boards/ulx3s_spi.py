"""ULX3S with an LFE5U-85F, an SPI controller at its header J1."""

from amaranth_boards.ulx3s import ULX3S_85F_Platform

from onnx_hw_boards.linked_board import board
from onnx_hw_boards.links.spi import Spi, spi_pads
from onnx_hw_boards.loader import openfpgaloader


class ULX3SSpiPlatform(ULX3S_85F_Platform):
    """Pins of J1: gp0 is CS, gp1 COPI, gp2 CIPO, gp3 SCK, gp4 the IRQ."""

    pads = spi_pads(cs_n="0+", copi="1+", cipo="2+", sck="3+", irq="4+", conn=("gpio", 0), IO_TYPE="LVCMOS33")
    resources = (*ULX3S_85F_Platform.resources, pads)


BOARD = board(
    "ulx3s_spi",
    ULX3SSpiPlatform,
    title="ULX3S with an LFE5U-85F, SPI on the header",
    link=Spi(15_000_000),
    loader=openfpgaloader("-b", "ulx3s"),
    default_clock_mhz=60.0,
)
