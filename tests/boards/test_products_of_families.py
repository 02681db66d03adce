"""What a product is said to take on iCE40 and Gowin, against what yosys 0.70 makes of it alone."""

from __future__ import annotations

import pytest

from onnx_hw_boards.demand import Demand, Product
from onnx_hw_boards.families.gowin.recipes import GOWIN
from onnx_hw_boards.families.ice40.recipes import ICE40_HX, ICE40_UP

SIGNED, OF_WHOLE = (True, True), (False, True)

ON_ULTRAPLUS = {  # factors, signed: look-up tables, flip-flops, multipliers
    (8, 8, SIGNED): (0, 16, 1),
    (4, 7, SIGNED): (0, 11, 1),
    (5, 5, SIGNED): (64, 30, 0),
    (8, 2, SIGNED): (24, 30, 0),
    (17, 4, SIGNED): (9, 31, 1),
    (17, 12, SIGNED): (25, 55, 1),
    (17, 17, SIGNED): (68, 86, 1),
    (18, 12, SIGNED): (0, 30, 2),
    (18, 18, SIGNED): (29, 60, 3),
    (18, 2, OF_WHOLE): (10, 28, 1),
    (18, 3, OF_WHOLE): (13, 31, 1),
    (18, 12, OF_WHOLE): (0, 32, 2),
    (18, 16, OF_WHOLE): (0, 36, 2),
    (18, 17, OF_WHOLE): (60, 73, 2),
}
DELAYED = {
    (8, 8, SIGNED): (0, 0, 1),
    (8, 8, OF_WHOLE): (0, 8, 1),
    (17, 8, SIGNED): (17, 68, 1),
    (18, 8, SIGNED): (33, 72, 1),
    (18, 12, SIGNED): (0, 60, 2),
    (18, 18, SIGNED): (29, 96, 3),
    (18, 17, OF_WHOLE): (60, 108, 2),
}
WITHOUT_MULTIPLIERS = {
    (4, 4, OF_WHOLE): (32, 24, 0),
    (8, 4, SIGNED): (76, 36, 0),
    (8, 8, SIGNED): (176, 48, 0),
    (8, 8, OF_WHOLE): (155, 48, 0),
    (12, 8, SIGNED): (252, 60, 0),
    (16, 16, SIGNED): (776, 96, 0),
    (18, 2, SIGNED): (54, 60, 0),
}
ON_GOWIN = {
    (2, 8, SIGNED): (26, 30, 0),
    (8, 8, SIGNED): (0, 48, 1),
    (8, 8, OF_WHOLE): (0, 48, 1),
    (9, 4, OF_WHOLE): (0, 39, 2),
    (12, 4, SIGNED): (0, 48, 2),
    (18, 18, SIGNED): (0, 108, 2),
    (18, 12, OF_WHOLE): (0, 90, 2),
}


@pytest.mark.parametrize(
    ("family", "measured", "delayed"),
    [
        (ICE40_UP, ON_ULTRAPLUS, False),
        (ICE40_UP, DELAYED, True),
        (ICE40_HX, WITHOUT_MULTIPLIERS, False),
        (GOWIN, ON_GOWIN, False),
    ],
)
def test_products(family, measured, delayed):
    """A register behind a product is one more of its width, which is no part of it."""
    for (a, b, signed), (lut, ff, dsp) in measured.items():
        said = family.cost(Demand.of(Product(a, b, signed, delayed)))
        kept = said.ff + (a + b) * delayed
        assert (kept, said.dsp) == (ff, dsp), (a, b, signed)
        assert abs(said.lut - lut) <= max(3, lut * 0.08), (a, b, signed, said)
