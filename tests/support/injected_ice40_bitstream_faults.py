"""Faults between a netlist and its bitstream, put into the bits of an unpacked iCE40."""

from __future__ import annotations

import re
from binascii import crc_hqx
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from onnx_hw_boards.families.ice40.bitstream.die_bits import DieBits, bank_map
from onnx_hw_boards.families.ice40.bitstream.logic_setting import TABLE_PLACES
from onnx_hw_boards.families.ice40.bitstream.netlist import unpack_die
from onnx_hw_boards.families.ice40.bitstream.routing import ChosenPips
from onnx_hw_boards.families.unpacked_bitstream import UnpackedBitstream
from onnx_hw_sim.gates.netlist import ChipCell

Place = tuple[int, int, int, int]
"""Row and column of a tile, row and column of a bit."""


@dataclass
class IceBits:
    """All bits of a chip, and the pins of its ports."""

    die: DieBits
    package: str
    pin_of: Mapping[str, str]

    @cached_property
    def unpacked(self) -> UnpackedBitstream:
        return unpack_die(self.die, self.package, self.pin_of)

    @cached_property
    def pips(self) -> ChosenPips:
        return ChosenPips(self.die)

    def turned(self, places: Sequence[Place]) -> IceBits:
        return replace(self, die=self.die.changed(places))

    def used(self) -> dict[str, list[Place]]:
        """Places, by kind of setting, of every set bit that belongs to a switch or to a cell that is read."""
        assert not self.unpacked.problems
        routing, kinds = set(self.pips.set_bits()), defaultdict[str, list[Place]](list)
        for y, x, row, column in np.argwhere(self.die.bits & self.die.explained).tolist():
            place = (y, x, row, column)
            name = "routing" if place in routing else self._setting(place)
            kinds[re.split(r"[.\d]", name)[0].rstrip("_")].append(place)
        return kinds

    def _setting(self, place: Place) -> str:
        y, x, *at = place
        settings = self.die.database.tile_settings[self.die.database.grid[y, x]]
        return next((name for name, bits in settings.items() if tuple(at) in bits), "a switch")

    def flipped(self, place: Place) -> IceBits:
        return self.turned([place])

    def name(self, place: Place) -> str:
        y, x, row, column = place
        return f"{self._setting(place)} of X{x}Y{y}, B{row}[{column}]"

    def bel(self, kind: str) -> tuple[ChipCell, int]:
        """The first unpacked cell of a kind, and its number in the database."""
        cell = next(cell for cell in self.unpacked.netlist.cells if cell.kind.startswith(kind))
        return cell, self.number(cell)

    def number(self, cell: ChipCell) -> int:
        place, name = cell.name.split(".")[:2]
        database = self.die.database
        x, y = map(int, place[1:].split("Y"))
        near = np.flatnonzero((database.bels["x"] == x) & (database.bels["y"] == y)).tolist()
        return next(bel for bel in near if database.bel_name(bel) == name)

    def logic(self, bel: int, place: int) -> Place:
        """A bit of the setting of a logic cell."""
        x, y, z = self.die.database.bel_place(bel)
        return self.die.places((x, y), f"LC_{z}")[place]

    def at(self, bel: int, name: str, above: int = 0) -> tuple[Place, ...]:
        """The bits of a setting of a cell's tile."""
        x, y, _ = self.die.database.bel_place(bel)
        return self.die.places((x, y + above), name)

    def of_bel(self, bel: int, name: str) -> tuple[Place, ...]:
        """The bit of a multiplier's setting."""
        x, y, bit = self.die.database.bel_settings[bel][name]
        return self.die.places((x, y), f"IpConfig.{bit}")

    def choices(self, sink: int) -> dict[int, tuple[Place, ...]]:
        """By source that a wire may have from the switch that drives it: the bits to turn over for it."""
        database = self.die.database
        pips = database.uphill(sink)
        chosen = next(pip for pip in pips if pip["source"] == self.pips.source(sink))
        record = database.switches[int(chosen["switch"])]
        count = int(record["count"])
        choices = {}
        for pip in pips[pips["switch"] == chosen["switch"]]:
            turned = int(pip["mask"]) ^ int(chosen["mask"])
            bits = [record["bits"][k].tolist() for k in range(count) if turned >> (count - 1 - k) & 1]
            choices[int(pip["source"])] = tuple((int(record["y"]), int(record["x"]), *bit) for bit in bits)
        return choices

    def without(self, sink: int) -> tuple[Place, ...]:
        """The bits to turn over so that nothing drives a wire."""
        database = self.die.database
        chosen = next(pip for pip in database.uphill(sink) if pip["source"] == self.pips.source(sink))
        record, mask = database.switches[int(chosen["switch"])], int(chosen["mask"])
        count = int(record["count"])
        bits = [record["bits"][k].tolist() for k in range(count) if mask >> (count - 1 - k) & 1]
        return tuple((int(record["y"]), int(record["x"]), *bit) for bit in bits)


def with_turned_bit(data: bytes, die: str, place: Place) -> bytes:
    """Return a file with one bit of a tile turned over, and a checksum that fits."""
    turned, where = bytearray(data), bank_map(die)
    bank, row, column = (int(table[place]) for table in (where.banks, where.rows, where.columns))
    height, width = where.shapes[bank]
    at = data.index(bytes([0x11, bank, 0x01, 0x01])) + 4  # the first time: configuration, then block RAMs
    at, bit = at + (row * width + column) // 8, (row * width + column) % 8
    assert at < data.index(bytes([0x11, bank, 0x01, 0x01])) + 4 + height * width // 8
    turned[at] ^= 0x80 >> bit
    first, last = data.index(bytes([0x01, 0x05])) + 2, len(data) - 5  # the checksum, then 01 06 00
    turned[last : last + 2] = crc_hqx(bytes(turned[first:last]), 0xFFFF).to_bytes(2, "big")
    return bytes(turned)


IceFault = Callable[[IceBits], IceBits]


def _full_table(bits: IceBits) -> int:
    """A look-up table all of whose inputs are in use."""
    cells = (cell for cell in bits.unpacked.netlist.cells if cell.kind == "SB_LUT4")
    return next(bits.number(cell) for cell in cells if len({*cell.pins.values()} - {(0,), (1,), (2,)}) == 5)


def _table_input(bits: IceBits) -> int:
    """A wire at the input of a look-up table."""
    bel, pin = _full_table(bits), "I0"
    wires = bits.die.database.uphill(bits.die.database.ports(bel)["I0"])["source"].tolist()
    return next(wire for wire in wires if bits.die.database.local_name(wire)[-1] == pin[1])


def flipped_table_bit(bits: IceBits) -> IceBits:
    return bits.turned([bits.logic(_full_table(bits), TABLE_PLACES[5])])


def moved_arc(bits: IceBits) -> IceBits:
    """One input of a look-up table comes from another wire that is in use."""
    sink = _table_input(bits)
    choices = bits.choices(sink)
    now = bits.pips.source(sink)
    used = [source for source in choices if source != now and bits.pips.source(source) is not None]
    return bits.turned(choices[(used or [source for source in choices if source != now])[0]])


def lost_arc(bits: IceBits) -> IceBits:
    return bits.turned(bits.without(_table_input(bits)))


def inverted_clock(bits: IceBits) -> IceBits:
    return bits.turned(bits.at(bits.bel("SB_DFF")[1], "NegClk"))


def other_value_of_reset(bits: IceBits) -> IceBits:
    return bits.turned([bits.logic(bits.bel("SB_DFFSR")[1], 18)])


def reset_at_once(bits: IceBits) -> IceBits:
    """A reset does not wait for the clock."""
    return bits.turned([bits.logic(bits.bel("SB_DFFSR")[1], 19)])


def lost_register(bits: IceBits) -> IceBits:
    return bits.turned([bits.logic(bits.bel("SB_DFF")[1], 9)])


def lost_enable(bits: IceBits) -> IceBits:
    """A register that waits for an enable is always on."""
    return bits.turned(bits.without(bits.die.database.ports(bits.bel("SB_DFFE")[1])["CEN"]))


def lost_carry(bits: IceBits) -> IceBits:
    return bits.turned([bits.logic(bits.bel("SB_CARRY")[1], 8)])


def first_carry(bits: IceBits) -> IceBits:
    """The constant at the beginning of a chain is the other one."""
    cells = (cell for cell in bits.unpacked.netlist.cells if cell.kind == "SB_CARRY" and cell.pin("CI") < 2)
    return bits.turned(bits.at(bits.number(next(cells)), "CarryInSet"))


def word_of_a_block_ram(bits: IceBits) -> IceBits:
    place = next(place for place, words in sorted(bits.die.contents.items()) if words.any())
    words = bits.die.contents[place].copy()
    words[3, 2] ^= True
    return replace(bits, die=bits.die.with_contents(place, words))


def mode_of_a_block_ram(bits: IceBits) -> IceBits:
    """It is read in words of another width."""
    return bits.turned(bits.at(bits.bel("SB_RAM40_4K")[1], "RamConfig.CBIT_2", above=1))


def block_ram_off(bits: IceBits) -> IceBits:
    return bits.turned(bits.at(bits.bel("SB_RAM40_4K")[1], "RamConfig.PowerUp"))


def swapped_address(bits: IceBits) -> IceBits:
    """Two address bits of a block RAM trade their places, at the switches beside it or one step before."""

    def pairs() -> Iterator[tuple[int, int]]:
        for cell in bits.unpacked.netlist.cells:
            if cell.kind == "SB_RAM40_4K":
                ports = bits.die.database.ports(bits.number(cell))
                wires = [ports[f"RADDR_{k}"] for k in range(8) if bits.pips.source(ports[f"RADDR_{k}"]) is not None]
                before = [source for wire in wires if (source := bits.pips.source(wire)) is not None]
                before = [wire for wire in before if bits.pips.source(wire) is not None]
                yield from ((a, b) for group in (wires, before) for a in group for b in group if a < b)

    for one, other in pairs():
        first, second = bits.pips.source(one), bits.pips.source(other)
        if first is not None and second is not None and first != second:
            this, that = bits.choices(one), bits.choices(other)
            if second in this and first in that:
                return bits.turned([*this[second], *that[first]])
    raise LookupError("no two address bits of a block RAM can trade their places")


def unsigned_multiplier(bits: IceBits) -> IceBits:
    return bits.turned(bits.of_bel(bits.bel("SB_MAC16")[1], "A_SIGNED"))


def missing_register(bits: IceBits) -> IceBits:
    """Of a multiplier: one that it has is missing, or one that it has not is there."""
    return bits.turned(bits.of_bel(bits.bel("SB_MAC16")[1], "A_REG"))


def blocked_product(bits: IceBits) -> IceBits:
    """The table behind an output of a multiplier does not let it through."""
    return bits.turned(bits.at(bits.bel("SB_MAC16")[1], "LC_0", above=1)[:1])


def column_buffer_off(bits: IceBits) -> IceBits:
    """A global network that is in use ends in the middle of a column."""
    rows = [(x, 4) for x in range(1, bits.die.database.width - 1)]
    return bits.turned(
        [place for at in rows for k in range(8) for place in bits.die.places(at, f"ColBufCtrl.glb_netwk_{k}")]
    )


def output_left_as_input(bits: IceBits) -> IceBits:
    pin = next(pin for port, pin in bits.pin_of.items() if port.endswith("_o_valid"))
    x, y, z = bits.die.database.bel_place(bits.die.database.package(bits.package)[pin])
    ex, ey, ez = bits.die.database.pin_controls[x, y, z]
    driver = [
        place for k in range(2, 6) for place in bits.die.places((x, y), f"IOB_{z}.PINTYPE_{k}") if bits.die.bits[place]
    ]
    return bits.turned([*driver, *bits.die.places((ex, ey), f"IoCtrl.IE_{ez}")])


def other_pull(bits: IceBits) -> IceBits:
    """A pin is pulled up that has no pull in the board's file."""
    pin = next(pin for port, pin in bits.pin_of.items() if port.endswith("_valid"))
    x, y, z = bits.die.database.pin_controls[bits.die.database.bel_place(bits.die.database.package(bits.package)[pin])]
    return bits.turned(bits.die.places((x, y), f"IoCtrl.REN_{z}"))


def registered_output(bits: IceBits) -> IceBits:
    """A register of the pin's own is in front of an output."""
    pin = next(pin for port, pin in bits.pin_of.items() if port.endswith("_o_valid"))
    x, y, z = bits.die.database.bel_place(bits.die.database.package(bits.package)[pin])
    return bits.turned(bits.die.places((x, y), f"IOB_{z}.PINTYPE_2"))


def swapped_pins(bits: IceBits) -> IceBits:
    """The constraints had two bits of an output the other way round."""
    first, second = (name for name in bits.pin_of if "_o_payload" in name and name.endswith(("[0]", "[1]")))
    return replace(bits, pin_of={**bits.pin_of, first: bits.pin_of[second], second: bits.pin_of[first]})


_OTHER = "depend on other inputs|golden|predicted"

ICE_FAULTS: dict[IceFault, str] = {
    flipped_table_bit: _OTHER,
    moved_arc: f"{_OTHER}|drives itself",
    lost_arc: _OTHER,
    inverted_clock: "another clock edge|other clock edge",
    other_value_of_reset: _OTHER,
    reset_at_once: "asynchronous reset",
    lost_register: _OTHER,
    lost_enable: _OTHER,
    lost_carry: "the carry of .* is read, and is off",
    first_carry: _OTHER,
    word_of_a_block_ram: "word 3 of the block RAM .*: netlist .*, bitstream",
    mode_of_a_block_ram: _OTHER,
    block_ram_off: "the block RAM .* is off",
    swapped_address: _OTHER,
    unsigned_multiplier: _OTHER,
    missing_register: _OTHER,
    blocked_product: "does not let the outputs of .*mac16_0 through",
    column_buffer_off: "the buffer of the global network . in X.*Y4 is off",
    output_left_as_input: "_o_valid`: OUTPUT LVCMOS33, pull none in the board's file, bitstream INPUT",
    other_pull: "_valid`: .*, pull none in the board's file, bitstream .*, pull up",
    registered_output: "there is a register between pin and circuit",
    swapped_pins: "golden",
}
"""Faults, and what the result says of each."""
