"""PLLs of an ECP5 (Lattice FPGA-TN-02200, sysCLOCK)."""

from __future__ import annotations

from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles, Place, Tile
from onnx_hw_boards.families.ecp5.bitstream.routing import Wire
from onnx_hw_boards.families.ecp5.bitstream.unpacked_cells import CellMaker, number
from onnx_hw_sim.gates.netlist import RUBBISH, ChipCell

_CLOCKS = ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3")
_OUTPUTS = {f"J{output}_PLL": output for output in (*_CLOCKS, "LOCK", "INTLOCK")}
"""Pin by the name of its wire."""

_PINS = (
    *("RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP", "PHASELOADREG", "PLLWAKESYNC"),
    *(f"EN{clock}" for clock in _CLOCKS),
)
_FED_BACK_OUTSIDE = "USERCLOCK"
"""Value of the feedback that has no bit: through the pin CLKFB."""


def drives(wire: Wire) -> bool:
    """Return whether a wire is an output of a PLL."""
    return wire[2] in _OUTPUTS


def _tiles_of(tiles: ChipTiles, place: Place) -> list[Tile]:
    """Return the two tiles with the settings of the PLL whose wires are at a place: its own, and one beside that."""

    def beside(at: Place, setting: str) -> Tile | None:
        row, column = at
        places = [at, (row, column - 1), (row, column + 1), (row - 1, column), (row + 1, column)]
        near = [tile for each in places for tile in tiles.at.get(each, ())]
        return next((tile for tile in near if setting in tile.kind.words), None)

    own = beside(place, "CLKI_DIV")
    other = None if own is None else beside(own.place, "CLKOP_DIV")
    return [tile for tile in (own, other) if tile is not None]


def make(maker: CellMaker, wire: Wire) -> None:
    """Make the PLL that drives a wire, once."""
    place = wire[:2]
    if (place, "PLL") in maker.several:
        return
    tiles = _tiles_of(maker.tiles, place)
    name = f"PLL of R{place[0]}C{place[1]}"
    if len(tiles) < 2 or tiles[0].choice("MODE") != ("EHXPLLL",):
        maker.problem(f"the {name} drives the circuit, and is off")
    words = {word: tile.word(word) for tile in tiles for word in tile.kind.words if "." not in word}
    choices = {choice: tile.choice(choice) for tile in tiles for choice in tile.kind.choices if "." not in choice}
    parameters = {word: number(value + 1, 32) for word, value in words.items() if word.endswith("_DIV")}
    parameters |= {f"{clock}_ENABLE": (*choices.get(f"{clock}_ENABLE", ()), "DISABLED")[0] for clock in _CLOCKS}
    pins = {pin: (maker.net(place, f"J{pin}_PLL"),) for pin in _PINS}
    pins |= {pin: (maker.net(place, f"{pin}_PLL"),) for pin in ("CLKI", "CLKFB")}
    if _FED_BACK_OUTSIDE not in choices.get("FEEDBK_PATH", (_FED_BACK_OUTSIDE,)):
        maker.problem(f"the {name} is fed back inside, by {' or '.join(choices['FEEDBK_PATH'])}")
    outs = [(pin, (*place, each)) for each, pin in _OUTPUTS.items()]

    def add() -> None:
        out = maker.out(outs)
        fed_back = next((clock for clock in _CLOCKS if out.get(clock) == pins["CLKFB"]), "")
        given = {pin: nets for pin, nets in pins.items() if nets != (RUBBISH,)}
        maker.cells.append(ChipCell(name, "EHXPLLL", parameters | {"FEEDBK_PATH": fed_back}, given | out))

    maker.later(place, "PLL", add)
