"""The wires of a chip: names that the database gives relative to a tile, made global, and what drives each wire."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from onnx_hw_boards.families.ecp5.bitstream.tile_database import TileType, device_data

Wire = tuple[int, int, str]
"""Row, column and name of a wire; row and column 0 for those of the centre of the chip."""

_RELATIVE = re.compile(r"(?:([NS])(\d+))?(?:([EW])(\d+))?_(.+)")
_OTHER_DIES = {"25K_", "45K_", "85K_"}
_DIE = re.compile(r"LFE5UM?(?:5G)?-(\d+)F")
_CLOCK_BUFFER = re.compile(r"G_CLKO_([LRTB]DCC\w+)")


class AmbiguousWire(Exception):
    """A wire with several drivers; the message names them."""


@cache
def _place(name: str) -> tuple[int, int, str]:
    """Return the rows and columns from a tile to a wire, and the wire's own name."""
    match = _RELATIVE.fullmatch(name)
    if match is None or not (match[1] or match[3]):
        return 0, 0, name
    rows = int(match[2] or 0) * (-1 if match[1] == "N" else 1)
    columns = int(match[4] or 0) * (-1 if match[3] == "W" else 1)
    return rows, columns, match[5]


class ClockNetwork:
    """The places of the global clocks' wires: quadrants, taps of the rows, and the spines that feed those."""

    def __init__(self, device: str) -> None:
        data: Mapping[str, Any] = device_data(device, "globals")
        self._quadrants = data["quadrants"]
        self._spines = data["spines"]
        columns = max(tap["rx1"] for tap in data["taps"].values()) + 1
        self._tap: list[tuple[int, str]] = [(0, "L")] * columns
        for name, tap in data["taps"].items():
            for side, first, last in (("L", tap["lx0"], tap["lx1"]), ("R", tap["rx0"], tap["rx1"])):
                for column in range(first, last + 1):
                    self._tap[column] = int(name[1:]), side

    def _quadrant(self, row: int, column: int) -> str:
        return next(
            name
            for name, area in self._quadrants.items()
            if area["x0"] <= column <= area["x1"] and area["y0"] <= row <= area["y1"]
        )

    def wire(self, row: int, column: int, name: str, *, in_spine: bool) -> Wire:
        """Return the wire that a name with ``G_`` means in a tile."""
        if name.startswith("G_HPBX"):  # of a row, from its tap to the left or to the right
            tap, side = self._tap[column]
            return row, tap, f"{side}_{name[2:]}"
        if name.startswith("G_VPTX") and not in_spine:
            spine = self._spines[f"{self._quadrant(row, column)}{column}"]
            return spine["y"], spine["x"], name
        if name.startswith("G_VPTX"):
            return row, column, name
        if name.startswith("G_HPRX"):
            return 0, 0, f"G_{self._quadrant(row, column)}PCLK{int(name[6:8])}"
        return 0, 0, name


class Routing:
    """Drivers of all wires.

    Args:
        device: the chip's name.
        tiles: kinds of the tiles at each place.
        drives: function that says whether a wire is the output of a cell that is in use.
    """

    def __init__(
        self, device: str, tiles: Mapping[tuple[int, int], Iterable[TileType]], drives: Callable[[Wire], bool]
    ) -> None:
        die = _DIE.fullmatch(device)
        assert die is not None
        self._die = f"{'25' if die[1] == '12' else die[1]}K_"
        self.drives = drives
        self._clocks = ClockNetwork(device)
        self._names: dict[tuple[int, int], set[str]] = {
            place: {kind.name for kind in kinds} for place, kinds in tiles.items()
        }
        self._arcs: dict[Wire, Wire] = {}
        self._by_bits: set[Wire] = set()
        self._fixed: dict[str, list[tuple[str, int, int, str]]] = defaultdict(list)
        self._fixed_globals: dict[Wire, list[Wire]] = defaultdict(list)
        self._roots: dict[Wire, Wire] = {}
        everything: dict[str, TileType] = {}
        places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, kinds in tiles.items():
            for kind in kinds:
                everything[kind.name] = kind
                places[kind.name].append(place)
        for kind in everything.values():
            for sink, source in kind.fixed:
                self._add_fixed(kind.name, sink, source, places[kind.name])

    def _own(self, name: str) -> str | None:
        """Return a name without the mark of the die; None for a wire of another die."""
        if name[:4] not in _OTHER_DIES:
            return name
        return name[4:] if name.startswith(self._die) else None

    def _add_fixed(self, kind: str, sink: str, source: str, places: list[tuple[int, int]]) -> None:
        own = self._own(sink)
        if own is None or self._own(source) is None:
            return
        if own.startswith("G_"):
            for row, column in places:
                into, out = self.wire(row, column, kind, sink), self.wire(row, column, kind, source)
                if into is not None and out is not None:
                    self._fixed_globals[into].append(out)
        else:
            rows, columns, name = _place(own)
            self._fixed[name].append((kind, rows, columns, source))

    def wire(self, row: int, column: int, kind: str, name: str) -> Wire | None:
        """Return the wire that a name means in a tile; None for one of another die."""
        own = self._own(name)
        if own is None:
            return None
        if own.startswith("G_"):
            return self._clocks.wire(row, column, own, in_spine="SPINE" in kind)
        rows, columns, local = _place(own)
        return row + rows, column + columns, local

    def connect(self, row: int, column: int, kind: str, sink: str, source: str, *, by_bits: bool) -> None:
        """Add an arc of a multiplexer.

        Args:
            by_bits: whether set bits choose it; otherwise it is what the multiplexer is without any.

        Raises:
            AmbiguousWire: another arc drives the same wire.
        """
        into, out = self.wire(row, column, kind, sink), self.wire(row, column, kind, source)
        if into is None or out is None:
            return
        before = self._arcs.setdefault(into, out)
        if by_bits:
            self._by_bits.add(into)
        if before != out:
            raise AmbiguousWire(f"{sink} of R{row}C{column} is driven by {name_of(before)} and by {name_of(out)}")

    def chosen(self, wire: Wire) -> Wire | None:
        """Return the source of a wire that the bits of a tile choose; None where they choose none."""
        return self._arcs.get(wire)

    @property
    def unread(self) -> int:
        """Number of arcs chosen by set bits that lead to no net which was asked for."""
        return sum(wire not in self._roots for wire in self._by_bits)

    def _sources(self, wire: Wire) -> list[Wire]:
        """Return the wires from which a wire is driven, of which at most one comes from a cell."""
        chosen = self._arcs.get(wire)
        if chosen is not None:
            return [chosen]
        row, column, name = wire
        if name.startswith("G_"):
            buffer = _CLOCK_BUFFER.fullmatch(name)
            return [(0, 0, f"G_CLKI_{buffer[1]}")] if buffer else self._fixed_globals.get(wire, [])
        sources = []
        for kind, rows, columns, source in self._fixed.get(name, ()):
            place = row - rows, column - columns
            if kind in self._names.get(place, ()):
                out = self.wire(*place, kind, source)
                if out is not None:
                    sources.append(out)
        return sources

    def root(self, wire: Wire) -> Wire:
        """Return the wire at the beginning of everything that drives a wire: a cell's output, or an open end.

        Raises:
            AmbiguousWire: two cells drive it, or it drives itself.
        """
        path = []
        while wire not in self._roots:
            path.append(wire)
            sources = self._sources(wire)
            if len(path) > 4000:
                raise AmbiguousWire(f"{name_of(wire)} drives itself")
            if self.drives(wire) or not sources:
                self._roots[wire] = wire
            elif len(sources) == 1:
                wire = sources[0]
            else:
                roots = {self.root(source) for source in sources}
                driven = [root for root in roots if self.drives(root)] or [wire]
                if len(driven) > 1:
                    raise AmbiguousWire(f"{name_of(wire)} is driven by {' and by '.join(map(name_of, sorted(driven)))}")
                self._roots[wire] = driven[0]
        root = self._roots[wire]
        for step in path:
            self._roots[step] = root
        return root


def name_of(wire: Wire) -> str:
    """Return a wire's name for people."""
    row, column, name = wire
    return name if name.startswith("G_") else f"{name} of R{row}C{column}"
