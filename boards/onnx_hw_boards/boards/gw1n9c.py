"""A Gowin GW1N-9C by itself: every stream on pins of the chip, the clock and the reset from outside."""

from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.families.gowin.recipes import GW1N_9C

# The pins of the PBGA256 package that have no second use, but the reset; clockwise around the die, so that the bits of
# a stream stay together.
PINS = """
D16 E14 C16 D15 E16 F15 F14 F16 F13 G12 F12 G13 G15 G14 G11 H12 G16 H15 H13 J12 H14 H16 J16 J14 J15 K16 J11 L12 L16
L14 K13 K12 K11 L13 M14 M15 D14 E15 N15 P16 N16 N14 P15 R16 R12 P13 R11 T12 R13 T14 M10 N11 T11 P11 N8 L9 P8 T8 M6 L8
M7 N7 R7 P7 N6 L7 P6 T6 T5 R6 T3 R4 R5 P5 T2 R3 T4 P4 R1 P2 M2 N3 M3 N1 N2 P1 K5 L4 K4 L5 L1 L3 J5 K6 K3 K2 H5 J4 J2
K1 H3 H1 H4 J6 G1 H2 F5 H6 G2 G3 G5 G4 F3 F1 F4 G6 E1 F2 E2 E3 B3 A2 B1 C2 C1 D2 D3 D1 A3 B4 A5 B6 A4 C5 D6 E7 E6 D7
C4 B5 F7 E8 B7 C7 D8 E9 F8 D9 B9 A10 F9 E11 D10 E10 A11 C11 B11 A12 F10 D11 B14 A15
"""

BOARD = BareChip(
    name="gw1n9c",
    title="GW1N-LV9, version C, PBGA256: streams on the pins of the bare chip",
    device=GW1N_9C,
    package="GW1N-LV9PG256C6/I5",
    speed="",
    clock_pin="C8",
    reset_pin="L15",
    pins=tuple(PINS.split()),
    default_clock_mhz=27.0,
)
