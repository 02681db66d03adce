"""A design on a board, as the tools of the chip take it: the circuit between pads, and where those are."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.assemble import Names, assemble, to_rtlil
from onnx_hw.build_folder import digest
from onnx_hw.chip.fit import pin_constraints
from onnx_hw.design import Design
from onnx_hw_boards.board import Board
from onnx_hw_boards.families.family import Family
from onnx_hw_boards.pins import PadStream


@dataclass(frozen=True)
class Netlist:
    """What synthesis, placement and routing begin with.

    Attributes:
        rtlil: the circuit, module ``top``, in yosys' own text format.
        constraints: text of nextpnr's file: every bit of the streams on a pin, and the clock.
        family: of the chip.
        clock_mhz: the clock to aim at.
        pins: that the streams take.
    """

    rtlil: str
    constraints: str
    family: Family
    clock_mhz: float
    pins: int

    def __repr__(self) -> str:
        return f"Netlist for {self.family.name}: {self.pins} pins, {self.clock_mhz:g} MHz"

    @property
    def lines(self) -> int:
        return len(self.rtlil.splitlines())

    @property
    def digest(self) -> str:
        """Of everything the bitstream depends on, but the tools."""
        return digest({"rtlil": self.rtlil, "pads": self.constraints, "clock": self.clock_mhz})


def netlist_of(design: Design, board: Board) -> Netlist:
    """The circuit of a design with its streams on the pins of a board.

    Raises:
        UserError: there are not enough pins.
    """
    from onnx_hw_rtl.shell import Shell
    from onnx_hw_rtl.target import Target

    assembly, names = assemble(design)
    streams = pad_streams(design, names)
    constraints = pin_constraints(board, streams, design.clock_mhz)
    rtlil = to_rtlil(Shell(assembly), Target(board.family.primitives))
    return Netlist(rtlil, constraints, board.family, design.clock_mhz, sum(stream.pins for stream in streams))


def pad_streams(design: Design, names: Names) -> list[PadStream]:
    """The streams that leave the chip."""
    open_edges = [edge for edge in design.edges() if edge.producer is None or edge.consumer is None]
    return [PadStream(names.edges[edge.tensor], edge.width, edge.type.dtype.bits) for edge in open_edges]
