"""Least number of logic cells of an iCE40 that a netlist needs: a look-up table and a flip-flop may share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

TABLE, FLIP_FLOP = "SB_LUT4", "SB_DFF"


def logic_cells(netlist: Mapping[str, Any]) -> int:
    """Return the least number of logic cells of a netlist as yosys writes it, in JSON.

    A flip-flop shares a cell with the look-up table at its input, if nothing else reads that table's output; so may a
    flip-flop whose input comes from outside its module. Carries without a look-up table, and cells that join chains,
    come on top.
    """
    return sum(map(_of_a_module, netlist["modules"].values()))


def _of_a_module(module: Mapping[str, Any]) -> int:
    cells = list(module["cells"].values())
    tables = [cell["connections"]["O"][0] for cell in cells if cell["type"] == TABLE]
    flip_flops = [cell["connections"]["D"][0] for cell in cells if cell["type"].startswith(FLIP_FLOP)]
    readers = Counter(
        bit
        for cell in cells
        for port, bits in cell["connections"].items()
        if cell["port_directions"].get(port) != "output"
        for bit in bits
    )
    readers.update(bit for port in module["ports"].values() if port["direction"] != "input" for bit in port["bits"])
    outside = {bit for port in module["ports"].values() if port["direction"] == "input" for bit in port["bits"]}
    for cell in cells:
        if not cell["type"].startswith("SB_"):  # a core, or the like: its outputs come from outside, too
            outside |= {bit for bits in cell["connections"].values() for bit in bits}
    alone = {bit for bit in tables if readers[bit] == 1}
    return len(tables) + sum(bit not in alone and bit not in outside for bit in flip_flops)
