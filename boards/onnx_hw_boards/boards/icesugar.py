"""iCESugar with an iCE40UP5K."""

from amaranth_boards.icesugar import ICESugarPlatform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import ICESPROG

BOARD = board(
    "icesugar",
    ICESugarPlatform,
    title="iCESugar with an iCE40UP5K",
    link=Uart(115_200),
    loader=ICESPROG,
    default_clock_mhz=24.0,
)
