"""Cells of a netlist with their models, and the toggles of the nets that they drive."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from onnx_hw_sim.gates.cell_models import Model, Parts, not_modelled
from onnx_hw_sim.gates.netlist import FlatNetlist
from onnx_hw_sim.gates.program import GateProgram, program


@dataclass
class ToggleCount:
    """Count of toggles: changes of nets from one cycle to the next.

    The cycles are a sample: about one in ``gap``, in each run with one of the patterns.

    Attributes:
        groups: nets of the program by the name of their group, as ``ModelledCells.driven_nets`` returns them.
        pattern: number of the pattern of stalls whose runs are watched; a board's are named by run.
        window: cycles from a run's cycle 0 that are watched; a board is watched all the time.
        gap: mean number of cycles from one compared pair to the next.
        toggles: result, by group, of all pairs.
        pairs: result, pairs of cycles that were compared, of all runs.
    """

    groups: Mapping[str, Sequence[int]]
    pattern: int
    window: int
    gap: int = 1
    toggles: dict[str, int] = field(default_factory=dict)
    pairs: int = 0


class ModelledCells:
    """All cells of a netlist as parts, and as a program.

    Args:
        models: models of the family's cells.
        clock: the net that clocks them; None for that of the port ``clk``.

    Attributes:
        drivers: name of the cell that drives a net, by net.

    Raises:
        UnmodelledCell: a cell has no model.
    """

    def __init__(self, netlist: FlatNetlist, models: Mapping[str, Model], clock: int | None = None) -> None:
        self.parts, self.drivers = parts_of(netlist, models, clock)
        self._inputs = [net for name in netlist.inputs for net in netlist.ports[name]]

    @cached_property
    def program(self) -> GateProgram:
        """The program; raise UnmodelledCell where two cells drive a net, or some wait for each other."""
        return program(self.parts, [*self._inputs, *self.parts.driven_outside])

    def driven_nets(self, group_of: Callable[[str], str]) -> dict[str, list[int]]:
        """Return the nets that cells drive, by group; nets that the program replaces by others are left out.

        Args:
            group_of: returns the group of a cell, by its name.
        """
        groups: dict[str, list[int]] = {}
        for net, cell in self.drivers.items():
            if self.program.place[net] == net:
                groups.setdefault(group_of(cell), []).append(net)
        return groups


def begin_count(c: ctypes.CDLL, handle: int, count: ToggleCount) -> None:
    """Tell the library what to count."""
    nets = np.array([net for nets in count.groups.values() for net in nets], dtype=np.int32)
    ends = np.cumsum([len(nets) for nets in count.groups.values()], dtype=np.int64)
    c.gates_watch(handle, nets.ctypes.data, ends.ctypes.data, len(ends), count.pattern, count.window, max(1, count.gap))


def end_count(c: ctypes.CDLL, handle: int, count: ToggleCount) -> None:
    """Set the results of a count."""
    toggles = np.zeros(len(count.groups), dtype=np.uint64)
    count.pairs = c.gates_watched(handle, toggles.ctypes.data)
    count.toggles = dict(zip(count.groups, map(int, toggles), strict=True))


def parts_of(
    netlist: FlatNetlist, models: Mapping[str, Model], clock: int | None = None
) -> tuple[Parts, dict[int, str]]:
    """Return the parts of all cells, and the cell that drives each net of the netlist, by its name.

    Args:
        clock: as for ``ModelledCells``.
    """
    parts = Parts(netlist.nets, netlist.ports["clk"][0] if clock is None else clock)
    drivers: dict[int, str] = {}
    for cell in netlist.cells:
        model = models.get(cell.kind)
        if model is None:
            raise not_modelled(cell, "no model knows this kind of cell")
        first = _counts(parts)
        model(cell, parts)
        drivers |= {net: cell.name for net in _driven(parts, first) if net < netlist.nets}
    return parts, drivers


def _counts(parts: Parts) -> tuple[int, ...]:
    kinds: tuple[Sized, ...] = (parts.tables, parts.flip_flops, parts.products, parts.small, parts.blocks)
    return tuple(map(len, kinds))


def _driven(parts: Parts, first: Sequence[int]) -> Iterator[int]:
    """Yield the nets that parts drive, from those with the given numbers on."""
    tables, flip_flops, products, small, blocks = first
    yield from (part.out for part in parts.tables[tables:])
    yield from (part.out for part in parts.flip_flops[flip_flops:])
    ports = (port for block in parts.blocks[blocks:] for port in block.ports)
    words = [part.out for part in parts.products[products:]] + [part.out for part in parts.small[small:]]
    for word in (*words, *(port.out for port in ports)):
        yield from (net for net in word if net is not None)
