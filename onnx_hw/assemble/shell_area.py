"""Area of the shell around a network on a board with a link, clock and reset included."""

from __future__ import annotations

from functools import lru_cache

from onnx_hw.assemble.netlist import shell_of
from onnx_hw.assemble.netlist_demand import demand_of_netlist
from onnx_hw.ir.network import Boundary, Network
from onnx_hw_boards.board import Board
from onnx_hw_boards.cells import Cells
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.link import Link, LinkPort


def shell_cells(network: Network, board: Board, clock_mhz: float) -> Cells:
    """Return an estimate of the shell's cells without a design, for the narrowest streams; none on a bare chip.

    Raises:
        UserError: the clock is too slow for the link, or no whole number of its cycles is near a bit.
    """
    if not isinstance(board, LinkedBoard):
        return Cells()
    inputs, outputs = _ports("i", network, network.inputs), _ports("o", network, network.outputs)
    return cells_of_shell(Link(bytes(16), inputs, outputs, round(clock_mhz * 1e6)), board, clock_mhz)


@lru_cache(maxsize=64)
def cells_of_shell(link: Link, board: LinkedBoard, clock_mhz: float) -> Cells:
    """Return an estimate of the shell's cells from the circuit itself, elaborated around an empty network."""
    return board.family.cost(demand_of_netlist(shell_of(link, board, clock_mhz).rtlil))


def _ports(name: str, network: Network, side: tuple[Boundary, ...]) -> tuple[LinkPort, ...]:
    """Return a port for each stream."""
    types = {tensor: network.tensors[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in side)}
    return tuple(
        LinkPort(f"{name}{k}", kind.size, 1, kind.dtype.bits, kind.dtype.signed)
        for k, kind in enumerate(types.values())
    )
