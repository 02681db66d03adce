"""iCEBreaker with an iCE40UP5K."""

from amaranth_boards.icebreaker import ICEBreakerPlatform

from onnx_hw_boards.linked_board import Uart, board
from onnx_hw_boards.loader import ICEPROG

BOARD = board(
    "icebreaker",
    ICEBreakerPlatform,
    title="iCEBreaker with an iCE40UP5K",
    link=Uart(6_000_000),  # its FT2232H has up to 12 Mbaud (FTDI, DS_FT2232H); 4 cycles of the clock
    loader=ICEPROG,
    default_clock_mhz=24.0,
)
