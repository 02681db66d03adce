"""The netlist in a bitstream: what its bits make of the chip, from the outputs backwards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from onnx_hw_boards.families.ecp5.bitstream import hard_cells, logic_cells, phase_locked_loop
from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import SHARED_BITS, ChipTiles, frame_shapes
from onnx_hw_boards.families.ecp5.bitstream.configuration_file import (
    Configuration,
    UnreadableBitstream,
    read_bitstream,
)
from onnx_hw_boards.families.ecp5.bitstream.pads import PackagePins, memory_clocks
from onnx_hw_boards.families.ecp5.bitstream.routing import AmbiguousWire, Routing, Wire
from onnx_hw_boards.families.ecp5.bitstream.tile_database import DatabaseMissing
from onnx_hw_boards.families.ecp5.bitstream.unpacked_cells import CellMaker
from onnx_hw_boards.families.unpacked_bitstream import (
    DamagedBitstream,
    NotUnpacked,
    Pad,
    UnpackedBitstream,
    port_of_bit,
    ports_of_bits,
)
from onnx_hw_sim.gates.netlist import RUBBISH, FlatNetlist

_PIN = re.compile(r"JPADDI[ABCD]_PIO")

_SITES = {
    "TRELLIS_FF": "TRELLIS_FF",
    "MULT18X18D": "MULT18X18D",
    "DP16KD": "DP16KD",
    "EHXPLLL": "EHXPLLL",
    "LUT4": "TRELLIS_COMB",
}
"""Site that a cell takes, in nextpnr's words."""


def unpack(data: bytes, device: str, package: str, pin_of: Mapping[str, str]) -> UnpackedBitstream:
    """Return the cells and nets of a bitstream.

    Args:
        data: the file.
        device, package: the chip's name, and nextpnr's of its package.
        pin_of: pin of each bit of a port, such as ``x_payload[3]``.

    Raises:
        DamagedBitstream: the file is no whole bitstream for the chip.
        NotUnpacked: the database is not on this computer.
    """
    try:
        configuration = read_configuration(data, device)
        return unpack_tiles(ChipTiles(device, configuration.frames), configuration.block_rams, package, pin_of)
    except DatabaseMissing as why:
        raise NotUnpacked(str(why)) from None


def read_configuration(data: bytes, device: str) -> Configuration:
    """Return the bits of a bitstream for a chip; raise as ``unpack``."""
    names = {name: idcode for idcode, (name, _) in frame_shapes().items()}
    try:
        configuration = read_bitstream(data, {idcode: shape for idcode, (_, shape) in frame_shapes().items()})
    except UnreadableBitstream as why:
        raise DamagedBitstream(str(why)) from None
    if configuration.idcode != names[device]:
        other, _ = frame_shapes()[configuration.idcode]
        raise DamagedBitstream(f"it is for the chip {other}, not for {device}")
    return configuration


def unpack_tiles(
    tiles: ChipTiles, contents: Mapping[int, np.ndarray], package: str, pin_of: Mapping[str, str]
) -> UnpackedBitstream:
    """Return the cells and nets that bits make of a chip; raise DatabaseMissing.

    Args:
        contents: (2048,) words of 9 bits by the number of a block RAM in the file.
    """
    multipliers, rams = hard_cells.multipliers(tiles), hard_cells.block_rams(tiles)

    def drives(wire: Wire) -> bool:
        name = wire[2]
        if name.endswith("_SLICE"):
            return logic_cells.OUTPUT.fullmatch(name) is not None
        if name.endswith("_PLL"):
            return phase_locked_loop.drives(wire)
        return _PIN.fullmatch(name) is not None or hard_cells.drives(wire, multipliers, rams)

    routing = Routing(tiles.device, {place: [tile.kind for tile in there] for place, there in tiles.at.items()}, drives)
    maker = CellMaker(tiles, routing)
    _connect(maker)
    pins = PackagePins(tiles.device, package, tiles)
    pads = {name: pad for name in pins.sites if (pad := pins.pad(name)).direction}
    ports, inputs = _ports(maker, pins, pads, pin_of)
    maker.cells += memory_clocks(maker)
    while maker.wanted:
        wire = maker.wanted.pop()
        place, name = wire[:2], wire[2]
        if name.endswith("_SLICE"):
            logic_cells.make(maker, wire)
        elif name.endswith("_MULT18"):
            hard_cells.make_multiplier(maker, multipliers[place])
        elif name.endswith("_EBR"):
            hard_cells.make_block_ram(maker, rams[place], contents)
        elif name.endswith("_PLL"):
            phase_locked_loop.make(maker, wire)
        else:
            maker.problem(f"the circuit reads pin {_pin_at(pins, wire)}, which is no input of the design")
    for make in list(maker.several.values()):
        make()
    featureless = _unexplained(maker)
    netlist = FlatNetlist(maker.nets, tuple(maker.cells), ports, inputs)
    return UnpackedBitstream(
        netlist,
        pads,
        _sites(maker),
        sum(tile.bits.bit_count() for tile in tiles),
        featureless,
        routing.unread,
        tuple(maker.problems),
    )


def _connect(maker: CellMaker) -> None:
    """Take the arcs that the bits of all tiles choose."""
    for tile in maker.tiles:
        if not tile.bits:
            if tile.kind.name != "PLC2":
                for sink, source in tile.kind.idle_arcs:
                    maker.routing.connect(*tile.place, tile.kind.name, sink, source, by_bits=False)
            continue
        if not tile.kind.name.startswith(SHARED_BITS):
            tile.explain_all()
        for multiplexer in tile.kind.multiplexers:
            sources, explained = multiplexer.chosen(tile.bits)
            tile.explained |= explained
            sources = logic_cells.without_carry(tile, multiplexer.sink, sources)
            if len(sources) == 1:
                try:
                    maker.routing.connect(
                        *tile.place, tile.kind.name, multiplexer.sink, sources[0], by_bits=explained > 0
                    )
                except AmbiguousWire as why:
                    maker.problem(str(why))
            elif explained:
                maker.problem(f"{multiplexer.sink} of {tile.name} is driven by {' and by '.join(sources)}")


def _ports(
    maker: CellMaker, pins: PackagePins, pads: Mapping[str, Pad], pin_of: Mapping[str, str]
) -> tuple[dict[str, tuple[int, ...]], frozenset[str]]:
    """Return the nets of all ports, and those that are inputs; a pin that is off is an open net."""
    nets: dict[str, int] = {}
    inputs: set[str] = set()
    for bit, pin in pin_of.items():
        direction = pads[pin].direction if pin in pads else ""
        nets[bit] = RUBBISH
        if direction == "INPUT":
            inputs.add(port_of_bit(bit))
            nets[bit] = maker.net_of.setdefault(pins.input(pin), maker.fresh())
        elif direction == "OUTPUT":
            nets[bit] = pins.output(maker, pin)
        elif direction == "BIDIR":
            cell = pins.both_ways(maker, pin, maker.net_of.setdefault(pins.input(pin), maker.fresh()))
            maker.cells.append(cell)
            nets[bit] = cell.pin("B")
    return ports_of_bits(nets), frozenset(inputs)


def _pin_at(pins: PackagePins, wire: Wire) -> str:
    return next((name for name in pins.sites if pins.input(name) == wire), f"at R{wire[0]}C{wire[1]}")


def _unexplained(maker: CellMaker) -> int:
    """Note the bits that no setting of the database explains; return how many belong to none at all."""
    featureless = 0
    for tile in maker.tiles:
        left = tile.bits & ~tile.explained
        if not left:
            continue
        featureless += (left & ~tile.kind.understood).bit_count()
        left &= tile.kind.understood
        while left:
            bit = left.bit_length() - 1
            left ^= 1 << bit
            setting = tile.kind.setting_of(bit)
            if setting.endswith(".BASE_TYPE") and tile.choice(setting) == ("NONE",):  # of a pad that is off
                featureless += 1
                continue
            maker.problem(f"bit {tile.kind.bit_name(bit)} of {tile.name} is set, and no value of {setting} explains it")
    return featureless


def _sites(maker: CellMaker) -> dict[str, int]:
    """Return the sites that cells take, by nextpnr's name for them; slices with carries and memories by their modes."""
    sites = Counter(_SITES[cell.kind] for cell in maker.cells if cell.kind in _SITES and not maker.is_inverter(cell))
    modes = Counter(
        tile.choice(f"SLICE{letter}.MODE")
        for tile in maker.tiles
        if tile.kind.name == "PLC2" and tile.bits
        for letter in "ABCD"
    )
    sites["TRELLIS_COMB"] += len(maker.constants) + 2 * sum(modes[mode,] for mode in ("CCU2", "DPRAM", "RAMW"))
    sites["TRELLIS_RAMW"] = modes["RAMW",]
    return dict(sites)
