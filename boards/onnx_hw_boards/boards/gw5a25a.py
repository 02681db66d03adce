"""A Gowin GW5A-25A by itself: every stream on pins of the chip, the clock and the reset from outside."""

from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.families.gw5a.recipes import GW5A_25A

# The pins of the PBGA256S package that have no second use, but the reset; clockwise around the die, so that the bits of
# a stream stay together. The clock is at a pin of the global clocks.
PINS = """
L4 L5 K5 K6 G6 G5 F4 F3 E2 E1 F6 F5 E4 E3 D3 D1 C1 B1 C3 C2 B2 A2 B3 A3 A4 B5 A5 D5 C5 B6 A6 F7 E6 C7 A7 D6 C6 B8 A8
D8 C8 C11 A11 F9 D9 B12 A12 C13 A13 F10 E11 A14 E13 E12 B15 B16 F12 D14 F13 C15 C16 E15 E16 F15 F16 G14 G16 H15 H16
G12 H11 H13 H14 P14 K15 K16 N14 N16 M15 M16 L14 L16 P15 P16 R15 R16 T14 T13 R12 T12 L12 L13 M13 M12 M11 L11 L10 M10 P4
T4 M5 N4 M4 M3 R2 R1 P2 P1 N3 N1 M2 M1 L3 L1 K1 J3 J1 H2 H1 G3
"""

BOARD = BareChip(
    name="gw5a25a",
    title="GW5A-LV25, PBGA256S: streams on the pins of the bare chip",
    device=GW5A_25A,
    package="GW5A-LV25PG256SC1/I0",
    speed="",
    clock_pin="R9",
    reset_pin="G1",
    pins=tuple(PINS.split()),
    default_clock_mhz=50.0,
)
