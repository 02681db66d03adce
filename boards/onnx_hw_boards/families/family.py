"""What a chip family is: its cells, and how its tools get from a netlist to a bitstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from onnx_hw_boards.demand import Demand
from onnx_hw_boards.device import Cells

__all__ = ["Family", "Packing", "Placement", "Shares"]

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
    """

    tool: str
    constraints: str
    dialect: Dialect
    chip: tuple[str, ...]
    options: tuple[str, ...]
    files: tuple[str, ...]
    placed: str


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
class Shares:
    """How much of a chip is planned, of 1, by estimates that count look-up tables and blocks as an ECP5 has them.

    Attributes:
        lut, dsp, bram: where that is enough.
        most_lut, most_bram: where it is not; fuller chips are not routed.
        luts_per_multiplier: of a chip without hardware multipliers, what synthesis takes for one; a quarter of its
            look-up tables serves for them.
    """

    lut: float
    dsp: float
    bram: float
    most_lut: float
    most_bram: float
    luts_per_multiplier: int | None = None


@dataclass(frozen=True)
class Family:
    """Chips that are built for in one way.

    Attributes:
        name: for people.
        primitives: name of the module of hand-placed cells in ``onnx_hw_rtl.primitives``.
        cells: what one cell of yosys' netlist takes of a chip, by its type; others take nothing that runs out.
        cost: what a demand takes of a chip, estimated.
        mappers: yosys' commands from ``top`` to a netlist of cells, by the technology mapper that they use, best first.
        placement, packing: the steps after it.
        shares: how full its chips are planned.
    """

    name: str
    primitives: str
    cells: Mapping[str, Cells] = field(repr=False)
    cost: Price = field(repr=False)
    mappers: Mapping[str, tuple[str, ...]] = field(repr=False)
    placement: Placement = field(repr=False)
    packing: Packing = field(repr=False)
    shares: Shares = field(repr=False)

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
