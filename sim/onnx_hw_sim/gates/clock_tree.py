"""The clock of a netlist: from the pin of its oscillator, through pads and PLLs, to the registers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from onnx_hw_sim.gates.cell_models import CellLibrary, UnmodelledCell
from onnx_hw_sim.gates.netlist import FlatNetlist


@dataclass(frozen=True)
class ClockNet:
    """The net that clocks a netlist, and its frequency."""

    net: int
    mhz: Fraction


def clock_of(netlist: FlatNetlist, library: CellLibrary, port: str, mhz: Fraction) -> ClockNet:
    """Return the clock: of those that are made of the oscillator, the one at most pins.

    Args:
        port: pin of the oscillator.
        mhz: its frequency.

    Raises:
        UnmodelledCell: a PLL is used in a way that no model covers.
        WrongClock: a PLL makes no clock.
    """
    made = {netlist.ports[port][0]: mhz}
    cells = [cell for cell in netlist.cells if cell.kind in library.clocks]
    some_more = True
    while some_more:  # since one may come behind another
        some_more = False
        for cell in list(cells):
            for net, own in list(made.items()):
                if (net,) not in cell.pins.values():
                    continue
                path = library.clocks[cell.kind](cell, own)
                if path is not None and path.source == net:
                    made |= path.clocks
                    cells.remove(cell)
                    some_more = True
                    break
    pins = Counter(net for cell in netlist.cells for nets in cell.pins.values() for net in nets if net in made)
    if not pins:
        raise UnmodelledCell(f"the clock at `{port}` reaches nothing")
    net = max(made, key=lambda net: pins[net])
    return ClockNet(net, made[net])
