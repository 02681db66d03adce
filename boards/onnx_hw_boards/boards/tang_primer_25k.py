"""Tang Primer 25K with a GW5A-25A, on its dock."""

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth_boards.resources import UARTResource

from onnx_hw_boards.arora_v_platform import AroraVPlatform
from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader


class TangPrimer25kPlatform(AroraVPlatform):
    """Pins: https://github.com/litex-hub/litex-boards, platforms/sipeed_tang_primer_25k.py, with those of the dock."""

    part, family, default_clk = "GW5A-LV25MG121NC1/I0", "GW5A-25A", "clk50"
    connectors = ()
    resources = (
        Resource("clk50", 0, Pins("E2", dir="i"), Clock(50e6), Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="B3", tx="C3", attrs=Attrs(IO_TYPE="LVCMOS33")),
    )


BOARD = board(
    "tang_primer_25k",
    TangPrimer25kPlatform,
    title="Tang Primer 25K with a GW5A-25A",
    link=Uart(1_000_000),
    loader=openfpgaloader("-b", "tangprimer25k"),
    default_clock_mhz=50.0,
)
