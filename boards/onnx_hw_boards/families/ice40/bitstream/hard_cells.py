"""Block RAMs, multipliers and PLLs of an iCE40 (Lattice FPGA-TN-02002, FPGA-TN-02007 and FPGA-TN-02052)."""

from __future__ import annotations

import numpy as np

from onnx_hw_boards.families.ice40.bitstream.chip_cells import ChipCells, bits_of
from onnx_hw_boards.families.ice40.bitstream.logic_setting import TABLE_PLACES
from onnx_hw_sim.gates.netlist import ChipCell


def _bus(maker: ChipCells, bel: int, name: str, width: int) -> tuple[int, ...]:
    """Return the nets at the inputs ``name_0``, ``name_1`` ..."""
    return tuple(maker.net(bel, f"{name}_{k}") for k in range(width))


def _read(maker: ChipCells, bel: int, name: str, width: int) -> tuple[int, ...]:
    """Return the nets of the outputs ``name_0``, ``name_1`` ...; a new one where nobody reads."""
    nets = (maker.net_of.get((bel, f"{name}_{k}")) for k in range(width))
    return tuple(maker.fresh() if net is None else net for net in nets)


# ---- block RAMs -----------------------------------------------------------------------------------------------------


def make_block_ram(maker: ChipCells, bel: int) -> None:
    """Make a block RAM, once."""
    if bel in maker.several:
        return
    maker.sites.add(("ICESTORM_RAM", bel))
    die = maker.die
    x, y, _ = die.database.bel_place(bel)
    below, above = (x, y), (x, y + 1)
    if not die.switched_on(below, "RamConfig.PowerUp"):
        maker.problem(f"the block RAM {maker.name(bel)} is off")
    for k in range(4, 8):
        if die.switched_on(above, f"RamCascade.CBIT_{k}"):
            maker.problem(f"the block RAM {maker.name(bel)} shares addresses with others, which has no model here")
    mode = [int(die.switched_on(above, f"RamConfig.CBIT_{k}")) for k in range(4)]
    parameters = {"WRITE_MODE": bits_of(mode[0] + 2 * mode[1], 32), "READ_MODE": bits_of(mode[2] + 2 * mode[3], 32)}
    words = die.contents.get(below)
    if words is None:
        maker.problem(f"the file has no contents for the block RAM {maker.name(bel)}")
    else:
        parameters |= initial_values(words)
    widths = {"RADDR": 11, "WADDR": 11, "WDATA": 16, "MASK": 16}
    pins = {name: _bus(maker, bel, name, width) for name, width in widths.items()}
    pins |= maker.inputs(bel, {name: name for name in ("WCLK", "WCLKE", "WE", "RCLK", "RCLKE", "RE")})
    falls = [end for tile, end in ((below, "NR"), (above, "NW")) if die.switched_on(tile, "NegClk")]

    def add() -> None:
        out = {"RDATA": _read(maker, bel, "RDATA", 16)}
        maker.cells.append(ChipCell(maker.name(bel), f"SB_RAM40_4K{''.join(falls)}", parameters, pins | out))

    maker.later(bel, add)


def initial_values(words: np.ndarray) -> dict[str, str]:
    """Return the contents as parameters: 16 of 16 rows of 16 bits.

    Args:
        words: (256, 16) of bool, lowest bit first.
    """
    texts = ["".join("01"[bit] for bit in row[::-1].tolist()) for row in words]
    return {f"INIT_{k:X}": "".join(reversed(texts[16 * k : 16 * k + 16])) for k in range(16)}


# ---- multipliers ----------------------------------------------------------------------------------------------------

MULTIPLIER_SETTINGS = {
    **dict.fromkeys(("A_REG", "B_REG", "C_REG", "D_REG", "TOP_8x8_MULT_REG", "BOT_8x8_MULT_REG"), 1),
    **dict.fromkeys(("PIPELINE_16x16_MULT_REG1", "PIPELINE_16x16_MULT_REG2", "MODE_8x8", "A_SIGNED", "B_SIGNED"), 1),
    **dict.fromkeys((f"{half}ADDSUB_UPPERINPUT" for half in ("TOP", "BOT")), 1),
    **{
        f"{half}{setting}": 2
        for half in ("TOP", "BOT")
        for setting in ("OUTPUT_SELECT", "ADDSUB_LOWERINPUT", "ADDSUB_CARRYSELECT")
    },
}
"""Bits of the settings of a multiplier; its clock always rises."""

_CONTROLS = [f"{name}{half}" for name in ("ADDSUB", "IRST", "OHOLD", "OLOAD", "ORST") for half in ("TOP", "BOT")]
_CONTROLS += ["AHOLD", "BHOLD", "CHOLD", "DHOLD", "CLK", "CE", "CI"]
_FROM_NEIGHBOUR = {"ACCUMCI": ("BOTADDSUB_CARRYSELECT", 2), "SIGNEXTIN": ("BOTADDSUB_LOWERINPUT", 3)}
"""Inputs that come from the multiplier below, and the setting with which they are read."""

_THROUGH = sum(1 << k for k in range(16) if k & 4)
"""Function of the tables through which the outputs of a multiplier leave it: their third input."""


def make_multiplier(maker: ChipCells, bel: int) -> None:
    """Make a multiplier, once."""
    if bel in maker.several:
        return
    maker.sites.add(("ICESTORM_DSP", bel))
    values = {name: maker.die.bel_setting(bel, name, width) for name, width in MULTIPLIER_SETTINGS.items()}
    parameters = {name: bits_of(values[name], width) for name, width in MULTIPLIER_SETTINGS.items()}
    pins = {name: _bus(maker, bel, name, 16) for name in "ABCD"}
    pins |= maker.inputs(bel, {name: name for name in _CONTROLS})
    neighbours = [name for name, (setting, value) in _FROM_NEIGHBOUR.items() if values[setting] == value]
    pins |= maker.inputs(bel, {name: name for name in neighbours})
    x, y, _ = maker.die.database.bel_place(bel)
    for k in range(4):
        _require_way_out(maker, bel, (x, y + k), f"MULT{k}", range(8))

    def add() -> None:
        if (bel, "CO") in maker.net_of:
            _require_way_out(maker, bel, (x, y + 4), "IPCON", range(1))
        out = {"O": _read(maker, bel, "O", 32)}
        out |= maker.reads(bel, {name: name for name in ("CO", "ACCUMCO", "SIGNEXTOUT")})
        maker.cells.append(ChipCell(maker.name(bel), "SB_MAC16", parameters, pins | out))

    maker.later(bel, add)


def _require_way_out(maker: ChipCells, bel: int, tile: tuple[int, int], name: str, numbers: range) -> None:
    """Note a problem unless the tables behind the outputs of a multiplier let them through."""
    entries = {place for entry, place in enumerate(TABLE_PLACES) if _THROUGH >> entry & 1}
    wanted = tuple(place in entries for place in range(20))
    for number in numbers:
        cascade = maker.die.switched_on(tile, f"Cascade.{name}_LC0{number}_inmux02_5")
        if maker.die.setting(tile, f"LC_{number}") != wanted or not cascade:
            where = f"X{tile[0]}Y{tile[1]}"
            maker.problem(f"table {number} of {where} does not let the outputs of {maker.name(bel)} through")


# ---- PLLs -----------------------------------------------------------------------------------------------------------

_PLL_KINDS = {2: "SB_PLL40_PAD", 3: "SB_PLL40_CORE"}
_FEEDBACK = {0: "DELAY", 1: "SIMPLE", 2: "PHASE_AND_DELAY", 6: "EXTERNAL"}
_SELECTED = ("GENCLK", "GENCLK_HALF", "SHIFTREG_90deg", "SHIFTREG_0deg")
_DIVIDERS = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}
_OFF = {
    "DELAY_ADJMODE_FB": 1,
    "DELAY_ADJMODE_REL": 1,
    "ENABLE_ICEGATE_PORTA": 1,
    "ENABLE_ICEGATE_PORTB": 1,
    "TEST_MODE": 1,
}
_OFF |= {"FDA_FEEDBACK": 4, "FDA_RELATIVE": 4, "SHIFTREG_DIV_MODE": 2, "PLLOUT_SELECT_B": 2}


def make_pll(maker: ChipCells, bel: int, pad: int) -> None:
    """Make a PLL, once.

    Args:
        pad: cell of the pin that a PLL of the kind with a pad takes its clock from.
    """
    if bel in maker.several:
        return
    maker.sites.add(("ICESTORM_PLL", bel))
    values = {name: maker.die.bel_setting(bel, name, width) for name, width in (_DIVIDERS | _OFF).items()}
    kind = _PLL_KINDS.get(maker.die.bel_setting(bel, "PLLTYPE", 3))
    odd = [name for name in _OFF if values[name]]
    if kind is None or odd:
        maker.problem(f"the PLL {maker.name(bel)} has {odd[0] if odd else 'two outputs'}, which has no model here")
    parameters = {name: bits_of(values[name], width) for name, width in _DIVIDERS.items()}
    parameters["FEEDBACK_PATH"] = _FEEDBACK.get(maker.die.bel_setting(bel, "FEEDBACK_PATH", 3), "")
    parameters["PLLOUT_SELECT"] = _SELECTED[maker.die.bel_setting(bel, "PLLOUT_SELECT_A", 2)]
    pins = maker.inputs(bel, {"RESETB": "RESETB", "BYPASS": "BYPASS"})
    if kind == "SB_PLL40_PAD":
        pins["PACKAGEPIN"] = (maker.output(pad, "D_IN_0"),)
    else:
        pins |= maker.inputs(bel, {"REFERENCECLK": "REFERENCECLK"})

    def add() -> None:
        out = maker.reads(bel, {"PLLOUTGLOBAL": "PLLOUT_A", "LOCK": "LOCK"})
        maker.cells.append(ChipCell(maker.name(bel), kind or "SB_PLL40_2_PAD", parameters, pins | out))

    maker.later(bel, add)
