"""Cells in the logic of an ECP5: look-up tables, carries, wide multiplexers, flip-flops and distributed memory.

A tile of logic has four slices, each of two look-up tables and two flip-flops (Lattice FPGA-TN-02012, chapter 2).
"""

from __future__ import annotations

import re

from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import Place, Tile
from onnx_hw_boards.families.ecp5.bitstream.routing import Wire
from onnx_hw_boards.families.ecp5.bitstream.unpacked_cells import CellMaker, number
from onnx_hw_sim.gates.netlist import ONE, RUBBISH, ZERO, ChipCell

OUTPUT = re.compile(r"(?:F\d|F5[A-D]|FX[A-D]|Q\d|FCO[ABC]?)_SLICE")
"""Outputs of the cells of a slice."""

_SLICES = "ABCD"
_READ_ADDRESS = "DBCA"
"""Inputs of a look-up table that are the address of a distributed memory, lowest first."""

_WRITE_ADDRESS, _WRITE_DATA = ("D4", "B4", "C4", "A4"), ("C5", "A5", "D5", "B5")
"""Inputs of the third slice that are the address and the data to write."""


def without_carry(tile: Tile, sink: str, sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sources of a wire; in a slice with carries the bits of a wide multiplexer are those of the carry."""
    if tile.kind.name != "PLC2" or len(sink) != 2 or sink[0] != "F":
        return sources
    carries = tile.choice(f"SLICE{_SLICES[int(sink[1]) // 2]}.MODE") == ("CCU2",)
    return (f"{sink}_SLICE",) if carries else sources


def make(maker: CellMaker, wire: Wire) -> None:
    """Make the cell that drives an output of a slice."""
    place, name = wire[:2], wire[2].removesuffix("_SLICE")
    tile = maker.tiles.of_kind(place, "PLC2")
    assert tile is not None
    if name.startswith("Q"):
        _flip_flop(maker, tile, int(name[1]), wire)
    elif len(name) == 3 and name.startswith("F5"):
        _multiplexer(maker, place, _SLICES.index(name[2]), wire)
    elif name.startswith("FX"):
        _wide_multiplexer(maker, place, _SLICES.index(name[2]), wire)
    elif name.startswith("FCO"):
        _carry(maker, tile, _SLICES.index(name[3:] or "D"))
    else:
        table = int(name[1])
        mode = tile.choice(f"SLICE{_SLICES[table // 2]}.MODE")
        if mode == ("LOGIC",):
            _table(maker, tile, table, wire)
        elif mode == ("CCU2",):
            _carry(maker, tile, table // 2)
        elif mode == ("DPRAM",) and table < 4:
            _memory(maker, tile, table)
        else:
            maker.problem(f"the mode of SLICE{_SLICES[table // 2]} of {tile.name} is {' or '.join(mode) or 'none'}")


def _inputs(maker: CellMaker, tile: Tile, table: int) -> dict[str, int]:
    """Return the nets at the four inputs of a look-up table."""
    name, half = _SLICES[table // 2], table % 2
    nets = {}
    for pin in "ABCD":
        tied = tile.choice(f"SLICE{name}.{pin}{half}MUX") == ("1",)
        nets[pin] = ONE if tied else maker.net(tile.place, f"{pin}{table}_SLICE")
    return nets


def _init(tile: Tile, table: int) -> str:
    return number(tile.word(f"SLICE{_SLICES[table // 2]}.K{table % 2}.INIT"), 16)


def _table(maker: CellMaker, tile: Tile, table: int, wire: Wire) -> None:
    pins = {pin: (net,) for pin, net in _inputs(maker, tile, table).items()}
    pins["Z"] = (maker.net_of[wire],)
    maker.cells.append(ChipCell(f"{tile.name}.LUT{table}", "LUT4", {"INIT": _init(tile, table)}, pins))


def _multiplexer(maker: CellMaker, place: Place, index: int, wire: Wire) -> None:
    pins = {
        "BLUT": (maker.net(place, f"F{2 * index}_SLICE"),),
        "ALUT": (maker.net(place, f"F{2 * index + 1}_SLICE"),),
        "C0": (_select(maker, place, 2 * index),),
        "Z": (maker.net_of[wire],),
    }
    maker.cells.append(ChipCell(f"R{place[0]}C{place[1]}.PFUMX{index}", "PFUMX", {}, pins))


def _wide_multiplexer(maker: CellMaker, place: Place, index: int, wire: Wire) -> None:
    name = _SLICES[index]
    pins = {
        "D0": (maker.net(place, f"FXA{name}_SLICE"),),
        "D1": (maker.net(place, f"FXB{name}_SLICE"),),
        "SD": (_select(maker, place, 2 * index + 1),),
        "Z": (maker.net_of[wire],),
    }
    maker.cells.append(ChipCell(f"R{place[0]}C{place[1]}.L6MUX{index}", "L6MUX21", {}, pins))


def _select(maker: CellMaker, place: Place, table: int) -> int:
    """Return the net at the input M of half a slice."""
    tile = maker.tiles.of_kind(place, "PLC2")
    assert tile is not None
    if tile.choice(f"SLICE{_SLICES[table // 2]}.M{table % 2}MUX") == ("1",):
        return ONE
    return maker.net(place, f"M{table}_SLICE")


def _carry(maker: CellMaker, tile: Tile, index: int) -> None:
    name, place = _SLICES[index], tile.place
    if (place, f"carry {name}") in maker.several:
        return
    if tile.choice(f"SLICE{name}.MODE") != ("CCU2",):
        maker.problem(f"SLICE{name} of {tile.name} gives a carry, and is in another mode")
        return
    pins = {"CIN": (_carry_in(maker, place, index),)}
    parameters = {}
    for half in (0, 1):
        table = 2 * index + half
        pins |= {f"{pin}{half}": (net,) for pin, net in _inputs(maker, tile, table).items()}
        parameters[f"INIT{half}"] = _init(tile, table)
        parameters[f"INJECT1_{half}"] = _only(maker, tile, f"SLICE{name}.CCU2.INJECT1_{half}")
    wires = [(f"S{half}", (*place, f"F{2 * index + half}_SLICE")) for half in (0, 1)]
    wires.append(("COUT", (*place, f"FCO{name if index < 3 else ''}_SLICE")))

    def add() -> None:
        maker.cells.append(ChipCell(f"{tile.name}.CCU2{name}", "CCU2C", parameters, pins | maker.out(wires)))

    maker.later(place, f"carry {name}", add)


def _carry_in(maker: CellMaker, place: Place, index: int) -> int:
    """Return the net of a slice's carry in: that of the slice before it, unless that one has no carry."""
    row, column, name = maker.routing.root((*place, f"FCI{_SLICES[index] if index else ''}_SLICE"))
    tile = maker.tiles.of_kind((row, column), "PLC2")
    if tile is None or not name.startswith("FCO"):
        return RUBBISH
    before = name.removeprefix("FCO").removesuffix("_SLICE") or "D"
    return maker.net((row, column), name) if tile.choice(f"SLICE{before}.MODE") == ("CCU2",) else RUBBISH


def _only(maker: CellMaker, tile: Tile, setting: str) -> str:
    """Return the one value of a setting."""
    values = tile.choice(setting)
    if len(values) != 1:
        maker.problem(f"{setting} of {tile.name} is {' or '.join(values) or 'none'}")
        return ""
    return values[0]


def _flip_flop(maker: CellMaker, tile: Tile, table: int, wire: Wire) -> None:
    index, place = table // 2, tile.place
    name, half = f"SLICE{_SLICES[index]}", table % 2
    through = _only(maker, tile, f"{name}.REG{half}.SD") == "0"
    pins = {
        "DI": (_select(maker, place, table) if through else maker.net(place, f"DI{table}_SLICE"),),
        "CLK": (maker.net(place, f"CLK{index}_SLICE"),),
        "Q": (maker.net_of[wire],),
    }
    parameters = {
        "CEMUX": _only(maker, tile, f"{name}.CEMUX"),
        "REGSET": _only(maker, tile, f"{name}.REG{half}.REGSET"),
        "LSRMODE": _only(maker, tile, f"{name}.REG{half}.LSRMODE"),
        "CLKMUX": "CLK",
    }
    clock, reset = (maker.routing.chosen((*place, f"MUX{what}{index}")) for what in ("CLK", "LSR"))
    if clock is not None:
        parameters["CLKMUX"] = _only(maker, tile, f"{clock[2]}.CLKMUX")
    if reset is not None:
        pins["LSR"] = (maker.net(place, f"LSR{index}_SLICE"),)
        parameters["LSRMUX"] = _only(maker, tile, f"{reset[2]}.LSRMUX")
        parameters["SRMODE"] = _only(maker, tile, f"{reset[2]}.SRMODE")
    if parameters["CEMUX"] in ("CE", "INV"):
        pins["CE"] = (maker.net(place, f"CE{index}_SLICE"),)
    maker.cells.append(ChipCell(f"{tile.name}.FF{table}", "TRELLIS_FF", parameters, pins))


def _memory(maker: CellMaker, tile: Tile, table: int) -> None:
    """Make the distributed memory of a tile; look-up tables of it that are read at another address are another one."""
    place = tile.place
    nets = _inputs(maker, tile, table)
    address = tuple(nets[pin] for pin in _READ_ADDRESS)
    cell = f"memory at {address}"
    if (place, cell) in maker.several:
        return
    strobe = _only(maker, tile, "SLICEA.WREMUX")
    write = {"1": ONE, "0": ZERO}.get(strobe)
    if write is None:
        write = maker.net(place, "WRE0_SLICE")
        if strobe == "INV":
            write = maker.inverted(f"{tile.name}.WRE", write)
    if tile.choice("SLICEC.MODE") != ("RAMW",):
        maker.problem(f"SLICEA of {tile.name} is a memory, and SLICEC does not write it")
    parameters = {"WCKMUX": {"CLK": "WCK"}.get(_only(maker, tile, "CLK1.CLKMUX"), "INV"), "WREMUX": "WRE"}
    # One table after the other: a model needs to know only whether any bit is set.
    parameters["INITVAL"] = "".join(_init(tile, each) for each in range(4))
    pins = {
        "RAD": address,
        "WAD": tuple(maker.net(place, f"{pin}_SLICE") for pin in _WRITE_ADDRESS),
        "DI": tuple(maker.net(place, f"{pin}_SLICE") for pin in _WRITE_DATA),
        "WRE": (write,),
        "WCK": (maker.net(place, "WCK0_SLICE"),),
    }

    def add() -> None:
        nets = (maker.net_of.get((*place, f"F{k}_SLICE")) for k in range(4))
        out = tuple(maker.fresh() if net is None else net for net in nets)
        name = f"{tile.name}.DPR{len([key for key in maker.several if key[0] == place and key < (place, cell)])}"
        maker.cells.append(ChipCell(name, "TRELLIS_DPR16X4", parameters, pins | {"DO": out}))

    maker.later(place, cell, add)
