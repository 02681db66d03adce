"""Pads of an ECP5: direction, electrical standard and pull of a package's pins (Lattice FPGA-TN-02032, sysI/O)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles, Place, Tile
from onnx_hw_boards.families.ecp5.bitstream.tile_database import device_data
from onnx_hw_boards.families.ecp5.bitstream.unpacked_cells import CellMaker
from onnx_hw_boards.families.unpacked_bitstream import Pad
from onnx_hw_sim.gates.netlist import RUBBISH, ZERO, ChipCell

_DIRECTIONS = ("INPUT", "OUTPUT", "BIDIR")
_OFF = ("NONE", "_NONE_")


class PackagePins:
    """The pins of a package.

    Args:
        device, package: the chip's name, and nextpnr's of the package.
    """

    def __init__(self, device: str, package: str, tiles: ChipTiles) -> None:
        packages: Mapping[str, Mapping[str, Any]] = device_data(device, "iodb")["packages"]
        names = {name.upper(): name for name in packages}
        pins = packages[names[package.upper()]]
        self._tiles = tiles
        self._rows = max(row for row, _ in tiles.at)
        self._columns = max(column for _, column in tiles.at)
        self.sites = {name: ((pin["row"], pin["col"]), pin["pio"]) for name, pin in pins.items()}

    def _places(self, place: Place, letter: str) -> list[Place]:
        """Return the places of the tiles with the settings of a pad."""
        row, column = place
        if row == 0:
            return [(k, column + (letter == "B")) for k in (0, 1)]
        if row == self._rows:
            return [(row, column + (letter == "B"))]
        return [(row + k + (letter in "CD"), column) for k in (0, 1)]

    def pad(self, pin: str) -> Pad:
        """Return what the bits say of a pin, and explain them."""
        place, letter = self.sites[pin]
        places = self._places(place, letter)
        settings = self._tiles.settings(places, f"PIO{letter}.")
        types = self._tiles.base(places, f"PIO{letter}.", "BASE_TYPE", hidden=partial(_strength, f"PIO{letter}.DRIVE"))
        kinds = [value.partition("_") for value in types if value not in _OFF]
        directions = {direction for direction, _, _ in kinds if direction in _DIRECTIONS}
        return Pad(
            pin=pin,
            direction=directions.pop() if len(directions) == 1 else "",
            standards=frozenset(standard for _, _, standard in kinds),
            pull="" if len(settings.get("PULLMODE", ())) != 1 else settings["PULLMODE"][0].lower(),
            plain=all(
                settings.get(name, (default,)) == (default,)
                for name, default in (
                    ("DATAMUX_ODDR", "PADDO"),
                    ("DATAMUX_OREG", "PADDO"),
                    ("DATAMUX_MDDR", "PADDO"),
                    ("TRIMUX_TSREG", "PADDT"),
                )
            ),
        )

    def output(self, maker: CellMaker, pin: str) -> int:
        """Return the net that drives a pin; RUBBISH where its driver is off, or is not always on."""
        place, letter = self.sites[pin]
        if maker.net(place, f"PADDT{letter}_PIO") != ZERO:
            maker.problem(f"the driver of pin {pin} is not always on")
            return RUBBISH
        return maker.net(place, f"PADDO{letter}_PIO")

    def both_ways(self, maker: CellMaker, pin: str, net: int) -> ChipCell:
        """Return the pad of a pin in both directions, whose value is ``net`` where somebody reads it."""
        place, letter = self.sites[pin]
        wires = {"I": f"PADDO{letter}_PIO", "T": f"PADDT{letter}_PIO"}
        pins = {name: (maker.net(place, wire),) for name, wire in wires.items()}
        return ChipCell(f"pad {pin}", "TRELLIS_IO", {"DIR": "BIDIR"}, pins | {"B": (maker.fresh(),), "O": (net,)})

    def input(self, pin: str) -> tuple[int, int, str]:
        """Return the wire on which the value of a pin enters the chip."""
        place, letter = self.sites[pin]
        return (*place, f"JPADDI{letter}_PIO")


def memory_clocks(maker: CellMaker) -> Iterator[ChipCell]:
    """Yield the cell that drives the clock of the flash with the bitstream, where it is on (FPGA-TN-02039)."""
    if not any(tile.choice("CCLK.MODE") == ("USRMCLK",) for tile in maker.tiles if "CCLK.MODE" in tile.kind.choices):
        return
    for tile in maker.tiles:
        named = {sink.partition("_J")[2]: sink for sink, _ in tile.kind.fixed if sink.endswith("_CCLK")}
        pins: dict[str, tuple[int, ...]] = {}
        for pin, wire in (("USRMCLKI", "PADDO_CCLK"), ("USRMCLKTS", "PADDT_CCLK")):
            at = maker.routing.wire(*tile.place, tile.kind.name, named[wire]) if wire in named else None
            pins |= {} if at is None else {pin: (maker.net(at[:2], at[2]),)}
        if pins:
            yield ChipCell(f"clock of the flash, {tile.name}", "USRMCLK", {}, pins)


def _strength(setting: str, tile: Tile, value: str) -> int:
    """Return the bits of the strength of a pad in a tile, which is written over its type if that is LVCMOS or LVTTL."""
    if "LVCMOS" not in value and "LVTTL" not in value:
        return 0
    strengths = tile.kind.choices.get(setting, ())
    return next((mask for _, (mask, pattern) in strengths if tile.bits & mask == pattern), 0)
