"""An LFE5U-85F by itself: every stream on pins of the chip, the clock and the reset from outside."""

from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.families.ecp5.recipes import LFE5U_85F

# All user pins of the CABGA381 package but the clock, the reset and bank 8 (the configuration flash), clockwise around
# the die from its upper left corner, so that the bits of a stream stay together.
PINS = """
A6 B6 E6 D6 E7 D7 C6 C7 E8 D8 C8 B8 A7 A8 D9 E9 C9 D10 E10 B9 C10 A9 B10 A10 A11 B11 C11 D11 E11 B12 C12 D12 E12
A12 A13 B13 C13 D13 E13 A14 C14 D14 E14 A15 B15 C15 D15 E15 A16 B16 C16 D16 B17 C17 A17 B18 A18 B19 A19 B20 C18
D17 E16 F16 D18 E17 E18 F18 F17 G18 G16 H16 H18 H17 J17 J16 K16 K17 C20 D19 D20 E19 E20 F19 F20 G20 G19 H20 J18
K18 J19 K19 J20 K20 L20 M20 L19 M19 L16 L17 L18 M18 N16 M17 N18 P17 N17 P16 R16 R17 T16 N19 N20 P19 P18 P20 R20
T20 U20 T19 R18 U19 T18 U18 U17 U16 T17 P1 P2 P3 P4 N2 M1 L1 N1 N3 M3 L3 L2 M4 N5 N4 P5 M5 K4 K5 L4 L5 K2 J1 H1
K1 J4 J5 J3 K3 F1 G1 G3 F3 F2 E2 H4 G5 H5 H3 C1 D1 D2 E1 A2 B1 B2 C2 F4 E3 E5 F5 E4 D5 C3 D3 C4 B4 A3 B3 A4 A5
B5 C5
"""

BOARD = BareChip(
    name="ecp5",
    title="LFE5U-85F, speed 6, CABGA381: streams on the pins of the bare chip",
    device=LFE5U_85F,
    package="CABGA381",
    speed="6",
    clock_pin="H2",
    reset_pin="G2",
    pins=tuple(PINS.split()),
    pull="down",
    default_clock_mhz=80.0,
)
