"""Cells that are made of a bitstream, as the netlist of the chip calls them, and the sentences about what is not
understood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles, Place
from onnx_hw_boards.families.ecp5.bitstream.routing import AmbiguousWire, Routing, Wire, name_of
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO, ChipCell

_TIED = {"0": ZERO, "1": ONE}
_TIED_CONTROL = {"0": ONE}
"""A clock or a reset that is tied has the value 1, which the database calls 0."""


@dataclass
class CellMaker:
    """Nets and cells, made from the outputs of the chip backwards: only what somebody reads is made.

    Attributes:
        tiles: bits of all tiles.
        routing: drivers of all wires.
        cells: cells made so far.
        wanted: outputs of cells that somebody reads, and whose cells are not made yet.
        net_of: net of every cell's output that somebody reads, by wire.
        problems: what is not understood, in sentences.
        constants: look-up tables that only give a constant, by their value.
        nets: number of nets.
        inverters: names of the cells that stand for an inverter inside of another one.
        several: makers of the cells with several outputs, by place and cell.
    """

    tiles: ChipTiles
    routing: Routing
    cells: list[ChipCell] = field(default_factory=list)
    wanted: list[Wire] = field(default_factory=list)
    net_of: dict[Wire, int] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    constants: set[Wire] = field(default_factory=set)
    nets: int = 3
    inverters: set[str] = field(default_factory=set)
    several: dict[tuple[Place, str], Callable[[], None]] = field(default_factory=dict)

    def later(self, place: Place, cell: str, make: Callable[[], None]) -> None:
        """Make a cell with several outputs once all of those that somebody reads are known.

        Args:
            make: asks for no further net.
        """
        self.several.setdefault((place, cell), make)

    def fresh(self) -> int:
        self.nets += 1
        return self.nets - 1

    def problem(self, sentence: str) -> None:
        self.problems[sentence] += 1

    def net(self, place: Place, name: str) -> int:
        """Return the net of a wire: of the cell that drives it, of a constant, or RUBBISH where it is open."""
        wire = (*place, name)
        try:
            root = self.routing.root(wire)
        except AmbiguousWire as why:
            self.problem(str(why))
            return RUBBISH
        if root in self.net_of:
            return self.net_of[root]
        if self.routing.drives(root):
            constant = self._constant_table(root)
            if constant is None:
                self.wanted.append(root)
            else:
                self.constants.add(root)
            self.net_of[root] = self.fresh() if constant is None else constant
            return self.net_of[root]
        return self._tied(root)

    def _tied(self, wire: Wire) -> int:
        row, column, name = wire
        for tile in self.tiles.at.get((row, column), ()):
            setting = f"CIB.{name}MUX"
            if setting in tile.kind.choices:
                values = _TIED_CONTROL if name.startswith(("JCLK", "JLSR")) else _TIED
                return values.get(tile.choice(setting)[0], RUBBISH)
        if not name.endswith(("_SLICE", "_EBR", "_MULT18", "_PIO")) and "_" in name and name[1:2] != "_":
            self.problem(f"{name_of(wire)} drives the circuit, and its kind of cell is not known here")
        return RUBBISH

    def _constant_table(self, wire: Wire) -> int | None:
        """Return the constant that a look-up table gives whatever its inputs are; None for other outputs."""
        row, column, name = wire
        if not (name[0] == "F" and name[1:2].isdigit() and name[2:] == "_SLICE"):
            return None
        tile = self.tiles.of_kind((row, column), "PLC2")
        number = int(name[1])
        if tile is None or tile.choice(f"SLICE{'ABCD'[number // 2]}.MODE") != ("LOGIC",):
            return None
        return {0: ZERO, 0xFFFF: ONE}.get(tile.word(f"SLICE{'ABCD'[number // 2]}.K{number % 2}.INIT"))

    def inverted(self, name: str, net: int) -> int:
        """Return the net that is always the other value."""
        if net in (ZERO, ONE):
            return ONE if net == ZERO else ZERO
        out = self.fresh()
        self.inverters.add(name)
        self.cells.append(ChipCell(name, "LUT4", {"INIT": "0101010101010101"}, {"A": (net,), "Z": (out,)}))
        return out

    def is_inverter(self, cell: ChipCell) -> bool:
        """Return whether a cell stands for an inverter inside of another one."""
        return cell.name in self.inverters

    def out(self, wires: Iterable[tuple[str, Wire]]) -> dict[str, tuple[int, ...]]:
        """Return the outputs among some that somebody reads: net by pin."""
        return {pin: (self.net_of[wire],) for pin, wire in wires if wire in self.net_of}


def number(value: int, width: int) -> str:
    """Return a parameter as yosys writes it."""
    return format(value, f"0{width}b")
