"""iCEBreaker with an iCE40UP5K."""

from amaranth_boards.icebreaker import ICEBreakerPlatform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import ICEPROG

BOARD = board(
    "icebreaker",
    ICEBreakerPlatform,
    title="iCEBreaker with an iCE40UP5K",
    link=Uart(1_000_000),
    loader=ICEPROG,
    default_clock_mhz=24.0,
)
