"""An iCE40 UltraPlus 5K by itself: every stream on pins of the chip, the clock and the reset from outside."""

from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.families.ice40.recipes import UP5K

# The pins of the SG48 package with an ordinary buffer, but the clock, the reset and 14 to 17 (the configuration flash).
# 39 to 41 sink current for LEDs and cannot drive a one.
PINS = """
2 3 4 6 9 11 12 13 18 19 20 21 23 25 26 27 28 31 32 34 36 37 38 42 43 44 45 46 47 48
"""

BOARD = BareChip(
    name="up5k",
    title="iCE40UP5K, SG48: streams on the pins of the bare chip",
    device=UP5K,
    package="sg48",
    speed="",
    clock_pin="35",
    reset_pin="10",
    pins=tuple(PINS.split()),
    pull="none",
    default_clock_mhz=24.0,
)
