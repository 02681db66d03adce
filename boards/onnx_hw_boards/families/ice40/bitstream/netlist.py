"""The netlist in a bitstream: what its bits make of the chip, from the outputs backwards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from onnx_hw_boards.families.ice40.bitstream import hard_cells, logic_cells
from onnx_hw_boards.families.ice40.bitstream.chip_cells import ChipCells, Output
from onnx_hw_boards.families.ice40.bitstream.configuration_file import read_banks
from onnx_hw_boards.families.ice40.bitstream.die_bits import DIE_OF, DIES, DieBits
from onnx_hw_boards.families.ice40.bitstream.pads import PinSettings
from onnx_hw_boards.families.ice40.bitstream.routing import ChosenPips
from onnx_hw_boards.families.unpacked_bitstream import NotUnpacked, Pad, UnpackedBitstream, port_of_bit, ports_of_bits
from onnx_hw_sim.gates.netlist import RUBBISH, FlatNetlist

_UNDERSTOOD = {
    "logic": re.compile(r"LC_\d|NegClk|CarryInSet"),
    "io": re.compile(r"IOB_\d\.PINTYPE_\d|IoCtrl\.(IE|REN|cf_bit)_\d+|NegClk|PLL\.\w+"),
    "ramb": re.compile(r"NegClk|RamConfig\.\w+"),
    "ramt": re.compile(r"NegClk|RamConfig\.\w+"),
    **dict.fromkeys((*(f"dsp{k}" for k in range(4)), "ipcon"), re.compile(r"LC_\d|Cascade\.\w+|NegClk")),
}
"""Settings by kind of tile that are read with the cell that they belong to; without it they mean nothing."""

_NETWORKS = 8


def unpack(data: bytes, device: str, package: str, pin_of: Mapping[str, str]) -> UnpackedBitstream:
    """Return the cells and nets of a bitstream.

    Args:
        data: the file.
        device, package: the chip's name, and nextpnr's of its package.
        pin_of: pin of each bit of a port, such as ``x_payload[3]``.

    Raises:
        DamagedBitstream: the file is no whole bitstream for the chip.
        NotUnpacked: the database is not on this computer, or does not have the chip.
    """
    if device not in DIE_OF:
        raise NotUnpacked(f"bitstreams of the {device} are not unpacked here")
    return unpack_die(DieBits(DIE_OF[device], read_banks(data)), package, pin_of)


def unpack_die(die: DieBits, package: str, pin_of: Mapping[str, str]) -> UnpackedBitstream:
    """Return the cells and nets that bits make of a chip."""
    pips = ChosenPips(die)
    maker = ChipCells(die, pips)
    pins = PinSettings(maker, package)
    pads = {name: pad for name in pins.bels if (pad := pins.pad(name)).direction}
    ports, inputs = _ports(maker, pins, pads, pin_of)
    while maker.wanted:
        _make(maker, pins, maker.wanted.pop())
    for make in list(maker.several.values()):
        make()
    _column_buffers(maker)
    featureless = _unexplained(maker)
    sites = Counter(kind for kind, _ in maker.sites)
    return UnpackedBitstream(
        FlatNetlist(maker.nets, tuple(maker.cells), ports, inputs),
        pads,
        {**sites, "SB_IO": len(pads)},
        int(die.bits.sum()) + len(die.outside),
        featureless,
        pips.unread,
        (*pips.problems, *maker.problems),
    )


def _ports(
    maker: ChipCells, pins: PinSettings, pads: Mapping[str, Pad], pin_of: Mapping[str, str]
) -> tuple[dict[str, tuple[int, ...]], frozenset[str]]:
    """Return the nets of all ports, and those that are inputs; a pin that is off is an open net."""
    nets: dict[str, int] = {}
    inputs: set[str] = set()
    for bit, pin in pin_of.items():
        direction = pads[pin].direction if pin in pads else ""
        nets[bit] = RUBBISH
        if direction == "INPUT":
            inputs.add(port_of_bit(bit))
            nets[bit] = maker.net_of.setdefault((pins.bels[pin], "D_IN_0"), maker.fresh())
        elif direction == "OUTPUT":
            nets[bit] = pins.output(pin)
    return ports_of_bits(nets), frozenset(inputs)


def _make(maker: ChipCells, pins: PinSettings, output: Output) -> None:
    """Make the cell that drives an output."""
    bel, port = output
    kind = maker.die.database.bel_name(bel).rstrip("0123456789").rstrip("_")
    if kind == "lc":
        logic_cells.make(maker, output)
    elif kind == "ram":
        hard_cells.make_block_ram(maker, bel)
    elif kind == "mac16":
        hard_cells.make_multiplier(maker, bel)
    elif kind == "pll":
        hard_cells.make_pll(maker, bel, _pad_of_pll(maker, bel))
    else:
        pin = next((pin for pin, other in pins.bels.items() if other == bel), maker.name(bel))
        maker.problem(f"the circuit reads {port} of pin {pin}, which is no input of the design")


def _pad_of_pll(maker: ChipCells, bel: int) -> int:
    """Return the pin that a PLL takes its clock from: the one whose input is where its first output is."""
    wire = maker.die.database.ports(bel)["PLLOUT_A"]
    return next(other for other, port in maker.die.database.drivers(wire) if port == "D_IN_0")


def _column_buffers(maker: ChipCells) -> None:
    """Note a problem unless exactly the rows of tiles that pass a global network on do so."""
    die = maker.die
    buffers = [bel for kind, bel in maker.sites if kind == "SB_GB"]
    used = {k for k in range(_NETWORKS) if any(_is_network(maker, bel, k) for bel in buffers)}
    for y, x in np.argwhere(die.database.grid > 0).tolist():
        for k in range(_NETWORKS):
            places = die.places((x, y), f"ColBufCtrl.glb_netwk_{k}")
            if not places:
                continue
            die.explained[places[0]] = True
            wanted = y in DIES[die.die].buffer_rows
            if bool(die.bits[places[0]]) != wanted and (k in used or not wanted):
                state = "off" if wanted else "on"
                maker.problem(f"the buffer of the global network {k} in X{x}Y{y} is {state}")


def _is_network(maker: ChipCells, buffer: int, network: int) -> bool:
    wire = maker.die.database.ports(buffer)["GLOBAL_BUFFER_OUTPUT"]
    return maker.die.database.local_name(wire) == f"glb_netwk_{network}"


def _unexplained(maker: ChipCells) -> int:
    """Note the set bits that belong to a setting without a model; return how many belong to none at all."""
    die = maker.die
    featureless = len(die.outside - set(die.database.pad_bits.values()))
    for y, x, row, column in np.argwhere(die.bits & ~die.explained).tolist():
        kind = die.kind((x, y))
        settings = die.database.tile_settings[die.database.grid[y, x]]
        name = next((name for name, bits in settings.items() if (row, column) in bits), "")
        if not name:
            featureless += 1
        elif not _UNDERSTOOD[kind].fullmatch(name):
            maker.problem(f"{name} of X{x}Y{y} is set, which has no model here")
    return featureless
