"""Multipliers and block RAMs of an ECP5 (Lattice FPGA-TN-02205, sysDSP, and FPGA-TN-02204, memory)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles, Place
from onnx_hw_boards.families.ecp5.bitstream.routing import Wire
from onnx_hw_boards.families.ecp5.bitstream.unpacked_cells import CellMaker, number
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO, ChipCell

_MULTIPLIER_TILES = {"MIB_DSP0": 0, "MIB_DSP1": 1, "MIB_DSP4": 4, "MIB_DSP5": 5}
"""Number of the multiplier whose place is that of a tile. A block of nine columns has four of them."""

_RAM_TILES = {
    "MIB_EBR0": 0,
    "EBR_CMUX_UR": 0,
    "EBR_CMUX_LR": 0,
    "EBR_CMUX_LR_25K": 0,
    "MIB_EBR2": 1,
    "MIB_EBR4": 2,
    "MIB_EBR6": 3,
}
"""Number of the block RAM whose place is that of a tile. It extends over three columns at most."""

_PRODUCT = re.compile(r"JP(\d+)_MULT18")
_WORD = re.compile(r"JDO([AB])(\d+)_EBR")
_REGISTERS = ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT")
_NUMBER_BITS = 9  # of the number of a block RAM in the file, whose lowest bit comes first


@dataclass(frozen=True)
class HardCell:
    """A multiplier or a block RAM that is in use.

    Attributes:
        place: its place.
        name: name of its settings in the database, such as ``EBR1``.
        settings: values that each setting may have.
        words: settings that are numbers.
    """

    place: Place
    name: str
    settings: Mapping[str, tuple[str, ...]]
    words: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.name} of R{self.place[0]}C{self.place[1]}"


def multipliers(tiles: ChipTiles) -> dict[Place, HardCell]:
    """Return the multipliers in use, by place; and explain their bits."""
    return {cell.place: cell for cell in _in_use(tiles, _MULTIPLIER_TILES, "MULT18_", ("MULT18X18D",))}


def block_rams(tiles: ChipTiles) -> dict[Place, HardCell]:
    """Return the block RAMs in use, by place; and explain their bits."""
    return {cell.place: cell for cell in _in_use(tiles, _RAM_TILES, "EBR", ("DP16KD", "PDPW16KD"))}


def _in_use(tiles: ChipTiles, kinds: Mapping[str, int], prefix: str, modes: tuple[str, ...]) -> Iterator[HardCell]:
    for tile in list(tiles):
        index = kinds.get(tile.kind.name)
        if index is None:
            continue
        row, column = tile.place
        first, width = (column - index, 9) if prefix == "MULT18_" else (column, 3)
        places = [(row, k) for k in range(first, first + width)]
        name = f"{prefix}{index}"
        if not any(tile.bits for place in places for tile in tiles.at.get(place, ())):
            continue
        if tiles.mode(places, f"{name}.") in modes:
            settings = tiles.settings(places, f"{name}.")
            if prefix == "MULT18_":
                tiles.settings(places, "DSP_LEFT." if index < 4 else "DSP_RIGHT.")
            yield HardCell(tile.place, name, settings, tiles.words(places, f"{name}."))


def _pin(maker: CellMaker, cell: HardCell, pin: str, kind: str) -> int:
    """Return the net at a pin, behind the inverter that the cell may have there."""
    net = maker.net(cell.place, f"J{pin}_{kind}")
    values = cell.settings.get(f"{pin}MUX", (pin,))
    if values == ("INV",):
        return RUBBISH if net == RUBBISH else maker.inverted(f"{cell}.{pin}", net)
    if values != (pin,):
        maker.problem(f"{pin}MUX of {cell} is {' or '.join(values) or 'none'}")
    return net


def _require(maker: CellMaker, cell: HardCell, setting: str, *values: str) -> None:
    """Note a problem unless a setting has, or may have, one of some values."""
    found = cell.settings.get(setting, values)
    if not set(found) & set(values):
        maker.problem(f"{setting} of {cell} is {' or '.join(found) or 'none'}, which has no model here")


# ---- multipliers ----------------------------------------------------------------------------------------------------


def make_multiplier(maker: CellMaker, cell: HardCell) -> None:
    """Make a multiplier, once."""
    if (cell.place, cell.name) in maker.several:
        return
    pins = {f"{port}{k}": (maker.net(cell.place, f"J{port}{k}_MULT18"),) for port in "AB" for k in range(18)}
    for pin in ("SIGNEDA", "SIGNEDB", "SOURCEA", "SOURCEB"):
        net = maker.net(cell.place, f"J{pin}_MULT18")
        pins[pin] = (ZERO if net == RUBBISH and pin.startswith("SOURCE") else net,)
    controls = {
        f"{kind}{k}": _pin(maker, cell, f"{kind}{k}", "MULT18") for kind in ("CLK", "CE", "RST") for k in range(4)
    }
    pins |= {pin: (net,) for pin, net in controls.items() if net != RUBBISH}
    _require(maker, cell, "SOURCEB_MODE", "B_SHIFT")
    _require(maker, cell, "RESETMODE", "SYNC")
    parameters = {"RESETMODE": "SYNC"}
    for register in _REGISTERS:
        for kind in ("CLK", "CE", "RST"):
            setting = f"REG_{register}_{kind}"
            parameters[setting] = _selected(maker, cell, setting, kind, controls)
    used = {parameters[f"REG_{register}_CLK"] for register in _REGISTERS} - {"NONE"}
    for clock in sorted(used):
        _require(maker, cell, f"{clock}_DIV", "ENABLED")
    outs = [(f"P{k}", (*cell.place, f"JP{k}_MULT18")) for k in range(36)]

    def add() -> None:
        maker.cells.append(ChipCell(str(cell), "MULT18X18D", parameters, pins | maker.out(outs)))

    maker.later(cell.place, cell.name, add)


def _selected(maker: CellMaker, cell: HardCell, setting: str, kind: str, controls: Mapping[str, int]) -> str:
    """Return the control that a register is on; where the bits leave several open, the one that is connected."""
    values = cell.settings.get(setting, tuple(f"{kind}{k}" for k in range(4)))
    if values == ("NONE",):
        return "NONE"
    connected = [value for value in values if controls.get(value, RUBBISH) != RUBBISH]
    if len(values) == 1:
        return values[0]
    if not connected and kind == "RST" and values:
        return values[0]
    if len({controls[value] for value in connected}) != 1:
        maker.problem(
            f"{setting} of {cell} is {' or '.join(values) or 'none'}, of which {len(connected)} are connected"
        )
        return "NONE"
    return connected[0]


# ---- block RAMs -----------------------------------------------------------------------------------------------------


def make_block_ram(maker: CellMaker, cell: HardCell, contents: Mapping[int, np.ndarray]) -> None:
    """Make a block RAM, once.

    Args:
        contents: words of 9 bits by the number of a block RAM in the file.
    """
    if (cell.place, cell.name) in maker.several:
        return
    mode = cell.settings["MODE"][0]
    pins: dict[str, tuple[int, ...]] = {}
    parameters: dict[str, str] = {}
    for port in "AB":
        singles = [f"CLK{port}", f"CE{port}", f"OCE{port}", f"RST{port}"]
        singles += [f"WE{port}"] if mode == "DP16KD" else []
        singles += [f"AD{port}{k}" for k in range(14)] + [f"DI{port}{k}" for k in range(18)]
        pins |= {pin: (_pin(maker, cell, pin, "EBR"),) for pin in singles}
        _select_code(maker, cell, port, pins, parameters)
        parameters[f"REGMODE_{port}"] = _chosen(maker, cell, f"REGMODE_{port}")
        if mode == "DP16KD":
            parameters[f"DATA_WIDTH_{port}"] = number(int(_chosen(maker, cell, f"DP16KD.DATA_WIDTH_{port}") or 18), 32)
            parameters[f"WRITEMODE_{port}"] = _chosen(maker, cell, f"DP16KD.WRITEMODE_{port}")
    if mode == "PDPW16KD":  # port A writes 36 bits, by its clock enable and the enable of each byte, and B only reads
        parameters["DATA_WIDTH_A"] = number(36, 32)
        parameters["DATA_WIDTH_B"] = number(int(_chosen(maker, cell, "PDPW16KD.DATA_WIDTH_R") or 36), 32)
        pins |= {"WEA": (ONE,), "WEB": (ZERO,)}
    which = int(format(cell.words["WID"], f"0{_NUMBER_BITS}b")[::-1], 2)
    words = contents.get(which)
    if words is None:
        maker.problem(f"the file has no contents for {cell}, which has the number {which}")
    else:
        parameters |= _initial_values(words)
    outs = [(f"DO{port}{k}", (*cell.place, f"JDO{port}{k}_EBR")) for port in "AB" for k in range(18)]

    def add() -> None:
        maker.cells.append(ChipCell(str(cell), "DP16KD", parameters, pins | maker.out(outs)))

    maker.later(cell.place, cell.name, add)


def _chosen(maker: CellMaker, cell: HardCell, setting: str) -> str:
    """Return the value of a setting; note a problem and return nothing where the bits leave none or several."""
    values = cell.settings[setting]
    if len(values) != 1:
        maker.problem(f"{setting} of {cell} is {' or '.join(values) or 'none'}")
        return ""
    return values[0]


def _select_code(
    maker: CellMaker, cell: HardCell, port: str, pins: dict[str, tuple[int, ...]], parameters: dict[str, str]
) -> None:
    """Take a port that is always selected; its code is that of the constants at its pins."""
    code = format(cell.words[f"CSDECODE_{port}"], "03b")  # that of the first pin comes first
    nets = [maker.net(cell.place, f"JCS{port}{k}_EBR") for k in range(3)]
    if [ONE if bit == "1" else ZERO for bit in code] != nets:
        maker.problem(f"port {port} of {cell} is not always selected: its code is {code}")
    parameters[f"CSDECODE_{port}"] = "0b000"
    pins |= {f"CS{port}{k}": (ZERO,) for k in range(3)}


def _initial_values(words: np.ndarray) -> dict[str, str]:
    """Return the contents as parameters: 64 of 16 words of 18 bits, each in 20."""
    pairs = [int(low) | int(high) << 9 for low, high in zip(words[::2], words[1::2], strict=True)]
    return {
        f"INITVAL_{k:02X}": "".join(number(pair, 20) for pair in reversed(pairs[16 * k : 16 * k + 16]))
        for k in range(64)
    }


def drives(wire: Wire, multipliers: Mapping[Place, HardCell], rams: Mapping[Place, HardCell]) -> bool:
    """Return whether a wire is an output of one of these cells."""
    place, name = wire[:2], wire[2]
    if _PRODUCT.fullmatch(name):
        return place in multipliers
    return place in rams and _WORD.fullmatch(name) is not None
