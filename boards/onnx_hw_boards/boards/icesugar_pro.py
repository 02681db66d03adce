"""iCESugar-Pro with an LFE5U-25F."""

from amaranth_boards.icesugar_pro import ICESugarProPlatform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import ICESPROG

BOARD = board(
    "icesugar_pro",
    ICESugarProPlatform,
    title="iCESugar-Pro with an LFE5U-25F",
    link=Uart(115_200),
    loader=ICESPROG,
    default_clock_mhz=60.0,
)
