"""What a chip family is: its cells, and how its tools get from a netlist to a bitstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import Demand
from onnx_hw_boards.families.clock_source import Clocking

if TYPE_CHECKING:
    from onnx_hw_rtl.target import Primitives
    from onnx_hw_sim.gates.cell_models import CellLibrary

__all__ = ["Family", "Fill", "Packing", "Placement", "Price"]

Price = Callable[[Demand], Cells]
"""What a circuit takes of a chip, by what it demands."""

Dialect = Callable[[Mapping[str, str], float, str], str]
"""(pin by port bit, MHz, I/O standard) to the text of a file of constraints; the clock's port is ``clk``."""


@dataclass(frozen=True)
class Placement:
    """Place and route by one nextpnr.

    Attributes:
        tool: its name among the programs of ``onnx_hw_tools``.
        constraints: name of the file of constraints.
        dialect: writes it.
        chip: which chip, in nextpnr's words; with ``{option}``, ``{package}`` and ``{speed}``.
        options: for every design.
        files: what is read and written, with ``{netlist}``, ``{constraints}`` and ``{placed}``.
        placed: name of the file that is written, which the packer reads.
        sites: names for people of what the tool calls by others in its table of what is used.
    """

    tool: str
    constraints: str
    dialect: Dialect
    chip: tuple[str, ...]
    options: tuple[str, ...]
    files: tuple[str, ...]
    placed: str
    sites: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Packing:
    """The bitstream.

    Attributes:
        tool: its name among the programs of ``onnx_hw_tools``.
        arguments: with ``{option}``, ``{placed}`` and ``{bitstream}``.
        suffix: of the file, as programmers know it.
    """

    tool: str
    arguments: tuple[str, ...]
    suffix: str


@dataclass(frozen=True)
class Fill:
    """How full chips are planned: of 1, of each kind of cell that they have; all of it where nothing is said.

    Attributes:
        comfortable: where that is enough; fuller chips take long to route, and are slow.
        most: where it is not; fuller ones are not routed, or an estimate that is a little too low ends there.
    """

    comfortable: Mapping[str, float]
    most: Mapping[str, float]

    def plan(self, cells: Cells, taken: Cells, *, comfortable: bool) -> dict[str, int | None]:
        """What may be used, by kind; None of a kind that the family does not have, but for multipliers.

        Args:
            taken: by what stands around the network.
        """
        shares = self.comfortable if comfortable else self.most
        kinds = {kind.name: getattr(cells, kind.name) for kind in fields(cells)}
        left = {kind: max(0, number - getattr(taken, kind)) for kind, number in kinds.items()}
        planned = {kind: int(shares.get(kind, 1) * number) for kind, number in left.items()}
        return {kind: number if kinds[kind] or kind == "dsp" else None for kind, number in planned.items()}


@dataclass(frozen=True, eq=False)
class Family:
    """Chips that are built for in one way; each is itself and like no other.

    Attributes:
        name: for people.
        folder: name of the family's folder, which several families may share.
        cells: what one cell of yosys' netlist takes of a chip, by its type; others take nothing that runs out.
        cost: what a demand takes of a chip, estimated.
        mappers: yosys' commands from ``top`` to a netlist of cells, by the technology mapper that they use, best first.
        placement, packing: the steps after it.
        clocking: the clocks that the chips can make.
        fill: how full its chips are planned.
        logic_cells: how many of them a netlist, as yosys writes it in JSON, needs at least; None where a look-up table
            and a flip-flop do not share one.
        deepest_at_once: tokens of the deepest FIFO that is not better in block RAM; one more than a power of two.
    """

    name: str
    folder: str
    cells: Mapping[str, Cells] = field(repr=False)
    cost: Price = field(repr=False)
    mappers: Mapping[str, tuple[str, ...]] = field(repr=False)
    placement: Placement = field(repr=False)
    packing: Packing = field(repr=False)
    clocking: Clocking = field(repr=False)
    fill: Fill = field(repr=False)
    logic_cells: Callable[[Mapping[str, Any]], int] | None = field(default=None, repr=False)
    deepest_at_once: int = 33

    def primitives(self) -> Primitives:
        """Return the cells that are placed by hand; loads Amaranth."""
        primitives: Primitives = import_module(f"onnx_hw_boards.families.{self.folder}.primitives").PRIMITIVES
        return primitives

    def cell_library(self) -> CellLibrary:
        """Return the models of the cells, for the simulation of a netlist."""
        library: CellLibrary = import_module(f"onnx_hw_boards.families.{self.folder}.cell_models").LIBRARY
        return library

    @property
    def tools(self) -> tuple[str, str]:
        """The programs after yosys."""
        return self.placement.tool, self.packing.tool

    def count(self, netlist: Mapping[str, int]) -> Cells:
        """What cells take of a chip, their numbers given by type."""
        total = Cells()
        for cell, number in netlist.items():
            total += self.cells.get(cell, Cells()) * number
        return total
