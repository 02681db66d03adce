"""Chip family: its cells, and how its tools get from a netlist to a bitstream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from onnx_hw_boards.cells import Cells
from onnx_hw_boards.demand import Demand
from onnx_hw_boards.families.clock_source import Clocking
from onnx_hw_boards.families.unpacked_bitstream import Unpack

if TYPE_CHECKING:
    from onnx_hw_rtl.target import Primitives
    from onnx_hw_sim.gates.cell_models import CellLibrary

Price = Callable[[Demand], Cells]
"""Function from the demand of a circuit to the cells that it takes of a chip."""

Dialect = Callable[[Mapping[str, str], float, str], str]
"""Function from (pin by port bit, MHz, I/O standard) to the text of a constraints file; the clock's port is ``clk``."""


@dataclass(frozen=True)
class SlowestPath:
    """The slowest path of a routed chip from register to register.

    Attributes:
        mhz: fastest clock that it allows.
        first, last: names of the cells at its ends.
        logic_ns, routing_ns: delay of its cells, and of its wires.
    """

    mhz: float
    first: str
    last: str
    logic_ns: float
    routing_ns: float


@dataclass(frozen=True)
class Placement:
    """Place and route by one nextpnr.

    Attributes:
        tool: its name among the programs of ``onnx_hw_tools``.
        constraints: name of the file of constraints.
        dialect: function that writes it.
        chip: nextpnr's options that name the chip; with ``{option}``, ``{package}`` and ``{speed}``.
        options: options for every design.
        files: options that name the files to read and write, with ``{netlist}``, ``{constraints}`` and ``{placed}``.
        placed: name of the file that nextpnr writes and the packer reads.
        sites: names for people of the sites in the tool's table of utilisation.
        slowest_path: function from the lines of a file of delays, in SDF, to the slowest path; None where nextpnr times
            all cells itself.
    """

    tool: str
    constraints: str
    dialect: Dialect
    chip: tuple[str, ...]
    options: tuple[str, ...]
    files: tuple[str, ...]
    placed: str
    sites: Mapping[str, str] = field(default_factory=dict)
    slowest_path: Callable[[Iterable[str]], SlowestPath] | None = None


@dataclass(frozen=True)
class Packing:
    """The bitstream.

    Attributes:
        tool: its name among the programs of ``onnx_hw_tools``.
        arguments: with ``{option}``, ``{placed}`` and ``{bitstream}``.
        suffix: suffix of the file, as programmers know it.
    """

    tool: str
    arguments: tuple[str, ...]
    suffix: str


@dataclass(frozen=True)
class Fill:
    """Shares of a chip that designs may take, of 1, by kind of cell; all of a kind that is not listed.

    Attributes:
        comfortable: shares to plan with where they are enough; fuller chips take long to route, and are slow.
        most: shares to plan with otherwise; fuller chips are not routed, or an estimate that is a little too low
            fails there.
        easy_logic: share of the logic cells up to which the first seed gives a legal placement; fuller designs are made
            where no other one fits. None where ``most`` is such a share, too.
    """

    comfortable: Mapping[str, float]
    most: Mapping[str, float]
    easy_logic: float | None = None

    def plan(self, cells: Cells, taken: Cells, *, comfortable: bool) -> dict[str, int | None]:
        """Return the cells that a design may use, by kind; None for a kind that the family lacks, except multipliers.

        Args:
            taken: cells that the shell around the network takes.
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
        name: name for people.
        folder: name of the family's folder, which several families may share.
        cells: cells of a chip that one cell of yosys' netlist takes, by its type; others take nothing that runs out.
        cost: estimate of the cells that a demand takes.
        mappers: yosys' commands from ``top`` to a netlist of cells, by the technology mapper that they use, best first.
        placement, packing: the steps after it.
        clocking: the clocks that the chips can make.
        fill: shares of its chips that designs may take.
        logic_cells: function from a netlist, as yosys writes it in JSON, to the least number of logic cells; None where
            a look-up table and a flip-flop do not share one.
        bram_bits: bits of a block RAM.
        deepest_at_once: tokens of the deepest FIFO that is not better in block RAM; one more than a power of two.
        sources: texts of files that the mappers read, by name.
        primitives_name: name of the cells that are placed by hand, in the folder's module ``primitives``.
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
    bram_bits: int = field(repr=False)
    logic_cells: Callable[[Mapping[str, Any]], int] | None = field(default=None, repr=False)
    deepest_at_once: int = 33
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    primitives_name: str = "PRIMITIVES"

    def primitives(self) -> Primitives:
        """Return the cells that are placed by hand; loads Amaranth."""
        module = import_module(f"onnx_hw_boards.families.{self.folder}.primitives")
        primitives: Primitives = getattr(module, self.primitives_name)
        return primitives

    def cell_library(self) -> CellLibrary:
        """Return the models of the cells, for the simulation of a netlist."""
        library: CellLibrary = import_module(f"onnx_hw_boards.families.{self.folder}.cell_models").LIBRARY
        return library

    def unpacker(self) -> Unpack | None:
        """Return the function that unpacks a bitstream; None where the family has none."""
        package = f"onnx_hw_boards.families.{self.folder}"
        if find_spec(f"{package}.bitstream") is None:
            return None
        unpack: Unpack = import_module(f"{package}.bitstream.netlist").unpack
        return unpack

    @property
    def tools(self) -> tuple[str, str]:
        """The programs after yosys."""
        return self.placement.tool, self.packing.tool

    def count(self, netlist: Mapping[str, int]) -> Cells:
        """Return the cells of a chip that a netlist takes, whose cells are counted by type."""
        total = Cells()
        for cell, number in netlist.items():
            total += self.cells.get(cell, Cells()) * number
        return total
