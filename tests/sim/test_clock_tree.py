"""The clock of a netlist, from its oscillator to the registers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from onnx_hw_boards.families.ice40.cell_models import LIBRARY
from onnx_hw_sim.gates.clock_tree import clock_of
from onnx_hw_sim.gates.netlist import ONE, ZERO, ChipCell, FlatNetlist

PIN, PAD, PASSED, CLOCK = 2, 3, 4, 5
SETTINGS = {"DIVR": "0000", "DIVF": "0111111", "DIVQ": "100", "FEEDBACK_PATH": "SIMPLE", "PLLOUT_SELECT": "GENCLK"}
REGISTERS = [ChipCell(f"register{k}", "SB_DFF", {}, {"C": (CLOCK,), "D": (ZERO,), "Q": (6 + k,)}) for k in range(3)]


@pytest.mark.parametrize(("table", "mhz"), [("0000000000010000", 48), ("0000000000000001", 12)])
def test_clock_goes_through_a_buffered_pad_and_a_table(table: str, mhz: int) -> None:
    """A table that turns the clock over passes no clock that the model knows."""
    cells = (
        ChipCell("pad", "SB_GB_IO", {"PIN_TYPE": "000001"}, {"PACKAGE_PIN": (PIN,), "GLOBAL_BUFFER_OUTPUT": (PAD,)}),
        ChipCell("table", "SB_LUT4", {"LUT_INIT": table}, {"I2": (PAD,), "O": (PASSED,)}),
        ChipCell(
            "pll", "SB_PLL40_CORE", SETTINGS, {"REFERENCECLK": (PASSED,), "PLLOUTGLOBAL": (CLOCK,), "RESETB": (ONE,)}
        ),
        *REGISTERS,
    )
    netlist = FlatNetlist(9, cells, {"clk": (PIN,)}, frozenset({"clk"}))
    clock = clock_of(netlist, LIBRARY, "clk", Fraction(12))
    assert clock.mhz == mhz
    assert (clock.net == CLOCK) == (mhz == 48)
