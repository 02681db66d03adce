"""iCEBreaker with an iCE40UP5K, an SPI controller at its connector PMOD 1A."""

from amaranth_boards.icebreaker import ICEBreakerPlatform

from onnx_hw_boards.linked_board import board
from onnx_hw_boards.links.spi import Spi, spi_pads
from onnx_hw_boards.loader import ICEPROG


class ICEBreakerSpiPlatform(ICEBreakerPlatform):
    """Pins of PMOD 1A as Digilent's Pmod Interface Specification 1.2 has them (type 2A, expanded SPI): 7 is INT."""

    pads = spi_pads(cs_n="1", copi="2", cipo="3", sck="4", irq="7", conn=("pmod", 0), IO_STANDARD="SB_LVCMOS")
    resources = (*ICEBreakerPlatform.resources, pads)


BOARD = board(
    "icebreaker_spi",
    ICEBreakerSpiPlatform,
    title="iCEBreaker with an iCE40UP5K, SPI at PMOD 1A",
    link=Spi(6_000_000),
    loader=ICEPROG,
    default_clock_mhz=24.0,
)
