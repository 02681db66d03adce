"""Tang Mega 138K Pro with a GW5AST-138C, on its dock."""

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth_boards.resources import UARTResource

from onnx_hw_boards.arora_v_platform import AroraVPlatform
from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import openfpgaloader


class TangMega138kProPlatform(AroraVPlatform):
    """Pins: https://github.com/litex-hub/litex-boards, platforms/sipeed_tang_mega_138k_pro.py."""

    part, family, default_clk = "GW5AST-LV138FPG676AC1/I0", "GW5AST-138C", "clk50"
    connectors = ()
    resources = (
        Resource("clk50", 0, Pins("P16", dir="i"), Clock(50e6), Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="N16", tx="P15", attrs=Attrs(IO_TYPE="LVCMOS33")),
    )


BOARD = board(
    "tang_mega_138k_pro",
    TangMega138kProPlatform,
    title="Tang Mega 138K Pro with a GW5AST-138C",
    link=Uart(1_000_000),
    loader=openfpgaloader("-b", "tangmega138k"),
    default_clock_mhz=50.0,
)
