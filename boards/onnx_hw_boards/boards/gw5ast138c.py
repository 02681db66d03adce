"""A Gowin GW5AST-138C by itself: every stream on pins of the chip, the clock and the reset from outside."""

from onnx_hw_boards.bare_chip import BareChip
from onnx_hw_boards.families.gw5a.recipes import GW5AST_138C

# The pins of the FCPBGA676A package that have no second use, but the reset; clockwise around the die, so that the bits
# of a stream stay together. The clock is at a pin of the global clocks.
PINS = """
U17 V16 V17 V18 U15 U16 T17 T18 U14 V14 T14 T15 V19 W19 W20 Y20 T20 U20 T19 U19 AB24 AC24 V23 W23 AA24 AB25 Y25 AA25
AB26 AC26 V24 W25 Y26 V26 W26 U25 U26 U24 R18 M19 K18 G25 F25 J25 J26 G24 F24 H26 G26 E26 D26 E25 K20 J20 J18 H18 J19
H19 L17 L18 J24 H24 G22 F22 F23 E23 K22 K23 K16 K17 M16 K15 J16 J14 J15 L15 M14 L14 L19 H17 F18 F19 G19 F20 H16 H14
H15 G17 F17 G15 F15 E21 D21 B22 A22 C21 B21 B20 A20 B19 A19 A17 A18 E16 D16 C17 B17 C22 C26 B26 B25 A25 A23 A24 C24
B24 D23 D24 E22 J8 F8 F7 H8 G8 E6 D6 H6 G6 H7 G7 B5 A5 D3 C3 F3 E3 B4 A4 L8 K8 J6 J5 H3 K7 K6 J4 H4 A3 A2 C1 B1 E1 D1
C2 F2 E2 G2 G1 N8 M7 L7 K3 J3 M4 L4 L5 K5 M6 N7 N6 H2 H1 L3 K2 N1 M1 R1 P1 T4 T3 T2 R2 U2 U1 R8 P8 P6 R7 R6 T5 R5 U6
U5 T7
"""

BOARD = BareChip(
    name="gw5ast138c",
    title="GW5AST-LV138, version C, FCPBGA676A: streams on the pins of the bare chip",
    device=GW5AST_138C,
    package="GW5AST-LV138FPG676AC1/I0",
    speed="",
    clock_pin="U22",
    reset_pin="U4",
    pins=tuple(PINS.split()),
    default_clock_mhz=50.0,
)
