"""Cells in the logic of an iCE40: look-up tables, carries and flip-flops."""

from __future__ import annotations

from onnx_hw_boards.families.ice40.bitstream.chip_cells import REGISTER, TABLE, ChipCells, Output, bits_of
from onnx_hw_boards.families.ice40.bitstream.logic_setting import logic_setting, table_wires
from onnx_hw_sim.gates.netlist import ZERO, ChipCell

PORTS = (TABLE, REGISTER, "COUT")
"""Outputs of a logic cell."""


def make(maker: ChipCells, output: Output) -> None:
    """Make the part of a logic cell that drives an output."""
    _, port = output
    if port == REGISTER:
        _flip_flop(maker, output)
    elif port == TABLE:
        _table(maker, output)
    else:
        _carry(maker, output)


def _table(maker: ChipCells, output: Output) -> None:
    bel, _ = output
    setting, wires = logic_setting(maker.die, bel), table_wires(maker.die.database, bel)
    function = setting.table
    if not setting.leads_through([k for k, wire in enumerate(wires) if maker.pips.source(wire) is not None]):
        maker.sites.add(("ICESTORM_LC", bel))
    pins = {f"I{k}": (maker.on_wire(wires[k]) if _depends(function, k) else ZERO,) for k in range(4)}
    pins["O"] = (maker.net_of[output],)
    maker.cells.append(ChipCell(f"{maker.name(bel)}.table", "SB_LUT4", {"LUT_INIT": bits_of(function, 16)}, pins))


def _depends(function: int, k: int) -> bool:
    """Return whether a table looks at an input; one that it does not may only be there for the carry."""
    return any((function >> entry ^ function >> (entry | 1 << k)) & 1 for entry in range(16))


def _carry(maker: ChipCells, output: Output) -> None:
    bel, _ = output
    maker.sites.add(("ICESTORM_LC", bel))
    if not logic_setting(maker.die, bel).carries:
        maker.problem(f"the carry of {maker.name(bel)} is read, and is off")
    wires = table_wires(maker.die.database, bel)
    x, y, z = maker.die.database.bel_place(bel)
    chained = maker.pips.source(maker.die.database.ports(bel)["CIN"]) is not None
    if z == 0 and chained and maker.die.switched_on((x, y), "CarryInSet"):
        maker.problem(f"the first carry of X{x}Y{y} is 1, and that of the tile below")
    pins = {"I0": (maker.on_wire(wires[1]),), "I1": (maker.on_wire(wires[2]),), "CI": (maker.net(bel, "CIN"),)}
    pins["CO"] = (maker.net_of[output],)
    maker.cells.append(ChipCell(f"{maker.name(bel)}.carry", "SB_CARRY", {}, pins))


def _flip_flop(maker: ChipCells, output: Output) -> None:
    bel, _ = output
    maker.sites.add(("ICESTORM_LC", bel))
    setting = logic_setting(maker.die, bel)
    x, y, _ = maker.die.database.bel_place(bel)
    ports = maker.die.database.ports(bel)
    pins = {"D": (maker.output(bel, TABLE),), "C": (maker.net(bel, "CLK"),), "Q": (maker.net_of[output],)}
    kind = "SB_DFFN" if maker.die.switched_on((x, y), "NegClk") else "SB_DFF"
    if maker.pips.source(ports["CEN"]) is not None:
        kind, pins["E"] = f"{kind}E", (maker.net(bel, "CEN"),)
    reset = maker.net(bel, "SR")
    if reset != ZERO:
        pin = "S" if setting.sets else "R"
        kind += pin if setting.at_once else f"S{pin}"
        pins[pin] = (reset,)
    maker.cells.append(ChipCell(f"{maker.name(bel)}.register", kind, {}, pins))
