"""Faults between a netlist and its bitstream, put into the bits of an unpacked ECP5."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles, Tile
from onnx_hw_boards.families.ecp5.bitstream.netlist import unpack_tiles
from onnx_hw_boards.families.unpacked_bitstream import UnpackedBitstream


@dataclass
class Bits:
    """All bits of a chip, and the pins of its ports."""

    tiles: ChipTiles
    contents: Mapping[int, np.ndarray]
    package: str
    pin_of: Mapping[str, str]

    @cached_property
    def unpacked(self) -> UnpackedBitstream:
        return unpack_tiles(self.tiles, self.contents, self.package, self.pin_of)

    def turned(self, tile: Tile, bits: int) -> Bits:
        return Bits(self.tiles.changed(tile.name, bits), self.contents, self.package, self.pin_of)

    def used(self) -> dict[str, list[tuple[Tile, int]]]:
        """Tile and bit, by kind of setting, of every set bit that a setting explains."""
        assert not self.unpacked.problems
        kinds: dict[str, list[tuple[Tile, int]]] = defaultdict(list)
        for tile in self.tiles:
            explained = tile.explained
            while explained:
                bit = explained.bit_length() - 1
                explained ^= 1 << bit
                setting = tile.kind.setting_of(bit)
                kind = (
                    "routing"
                    if setting.startswith("the source")
                    else "table"
                    if setting.endswith("INIT")
                    else setting.split(".")[0].rstrip("0123456789ABCD_")
                )
                kinds[kind].append((tile, bit))
        return kinds

    def flipped(self, place: tuple[Tile, int]) -> Bits:
        tile, bit = place
        return self.turned(tile, 1 << bit)

    def name(self, place: tuple[Tile, int]) -> str:
        tile, bit = place
        return f"{tile.kind.setting_of(bit)} of {tile.name}, {tile.kind.bit_name(bit)}"

    def chosen(self, tile: Tile, setting: str, value: str) -> Bits:
        """With the bits of another value of a setting, in one tile."""
        mask, pattern = dict(tile.kind.choices[setting])[value]
        before = dict(tile.kind.choices[setting])[tile.choice(setting)[0]]
        everything = mask | before[0]
        return self.turned(tile, (tile.bits ^ pattern) & everything)


Fault = Callable[[Bits], Bits]


def _logic(bits: Bits, setting: str, value: str) -> Tile:
    """The first tile of logic in which a setting has a value."""
    logic = (tile for tile in bits.tiles if tile.kind.name == "PLC2" and tile.bits)
    return next(tile for tile in logic if tile.choice(setting) == (value,))


def _with_source(bits: Bits, kind: str, sink: str) -> Tile:
    """The first tile of a kind that chooses a source for a wire."""
    return next(
        tile
        for tile in bits.tiles
        if tile.kind.name == kind and any(m.sink == sink and m.chosen(tile.bits)[1] for m in tile.kind.multiplexers)
    )


def _read_table(bits: Bits) -> tuple[Tile, str]:
    """A look-up table that an output depends on, all of whose inputs are nets: no bit of it is left out."""
    name = min(
        cell.name
        for cell in bits.unpacked.netlist.cells
        if cell.kind == "LUT4" and ":PLC2.LUT" in cell.name and _reads_four_nets(cell.pins)
    )
    place, table = name.rsplit(".LUT", 1)
    tile = next(tile for tile in bits.tiles if tile.name == place)
    return tile, f"SLICE{'ABCD'[int(table) // 2]}.K{int(table) % 2}.INIT"


def _reads_four_nets(pins: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether the inputs of a look-up table are four nets, and no constants: these are nets 0 and 1."""
    nets = {net for pin in "ABCD" for net in pins.get(pin, ())}
    return len(nets) == 4 and min(nets) > 1


def flipped_table_bit(bits: Bits) -> Bits:
    tile, word = _read_table(bits)
    return bits.turned(tile, tile.kind.words[word][5][0])


def moved_arc(bits: Bits) -> Bits:
    """One input of a flip-flop's table comes from another wire."""
    tile = _with_source(bits, "PLC2", "A0")
    multiplexer = next(m for m in tile.kind.multiplexers if m.sink == "A0")
    now = multiplexer.chosen(tile.bits)[0][0]
    other = next(pattern for source, (_, pattern) in multiplexer.sources if source.startswith("F") and source != now)
    return bits.turned(tile, (tile.bits ^ other) & multiplexer.mask)


def lost_arc(bits: Bits) -> Bits:
    tile = _with_source(bits, "PLC2", "B1")
    multiplexer = next(m for m in tile.kind.multiplexers if m.sink == "B1")
    return bits.turned(tile, tile.bits & multiplexer.mask)


def inverted_clock(bits: Bits) -> Bits:
    tile = _with_source(bits, "PLC2", "MUXCLK0")
    which = next(m.chosen(tile.bits)[0][0] for m in tile.kind.multiplexers if m.sink == "MUXCLK0")
    return bits.chosen(tile, f"{which}.CLKMUX", "INV")


def inverted_reset(bits: Bits) -> Bits:
    tile = _with_source(bits, "PLC2", "MUXLSR0")
    which = next(m.chosen(tile.bits)[0][0] for m in tile.kind.multiplexers if m.sink == "MUXLSR0")
    return bits.chosen(tile, f"{which}.LSRMUX", "INV")


def other_value_of_reset(bits: Bits) -> Bits:
    tile = _with_source(bits, "PLC2", "MUXLSR0")
    return bits.chosen(tile, "SLICEA.REG0.REGSET", "SET")


def lost_enable(bits: Bits) -> Bits:
    """A register that waits for an enable is always on."""
    return bits.turned(*_ties_enable(bits))


def _ties_enable(bits: Bits) -> tuple[Tile, int]:
    tile = _with_source(bits, "PLC2", "CE0")
    multiplexer = next(m for m in tile.kind.multiplexers if m.sink == "CE0")
    _, pattern = dict(tile.kind.choices["SLICEA.CEMUX"])["1"]
    return tile, (tile.bits ^ pattern) & (multiplexer.mask | pattern)


def word_of_a_block_ram(bits: Bits) -> Bits:
    contents = {number: words.copy() for number, words in bits.contents.items()}
    number = next(number for number, words in contents.items() if words.any())
    contents[number][2] ^= 4
    return Bits(bits.tiles, contents, bits.package, bits.pin_of)


def swapped_address(bits: Bits) -> Bits:
    """Two address bits of a block RAM trade their places."""
    tile, (one, other) = next(
        (tile, pair)
        for tile in bits.tiles
        if tile.kind.name == "CIB_EBR"
        for pair in [[m for m in tile.kind.multiplexers if m.sink in ("JA0", "JA1") and m.chosen(tile.bits)[1]]]
        if len(pair) == 2
    )
    turned = 0
    for taken, given in ((one, other), (other, one)):
        wanted = given.chosen(tile.bits)[0][0]
        pattern = dict(taken.sources).get(wanted, taken.sources[0][1])[1]
        turned |= (tile.bits ^ pattern) & taken.mask
    return bits.turned(tile, turned)


def unsigned_multiplier(bits: Bits) -> Bits:
    """The pin that says whether an operand has a sign is on another wire."""
    place = next(cell.name for cell in bits.unpacked.netlist.cells if cell.kind == "MULT18X18D").split(" of R")[1]
    row, column = map(int, place.split("C"))
    fixed = (pair for tile in bits.tiles.at[row, column] for pair in tile.kind.fixed)
    source = next(source for sink, source in fixed if sink == "JSIGNEDA_MULT18")
    columns, wire = source.removeprefix("E").split("_") if "_" in source else ("0", source)  # here, or to the east
    tile = next(tile for tile in bits.tiles.at[row, column + int(columns)] if tile.kind.name == "CIB_DSP")
    choice = next(choice for choice in tile.kind.multiplexers if choice.sink == wire)
    now = choice.chosen(tile.bits)[0]
    other = next(pattern for source, (_, pattern) in choice.sources if source not in now)
    return bits.turned(tile, (tile.bits ^ other) & choice.mask)


def missing_register(bits: Bits) -> Bits:
    """Of a multiplier, between product and output."""
    name, place = next(cell.name for cell in bits.unpacked.netlist.cells if cell.kind == "MULT18X18D").split(" of R")
    row, column = map(int, place.split("C"))
    setting = f"{name}.REG_PIPELINE_CLK"
    for tile in [tile for k in range(column - 5, column + 9) for tile in bits.tiles.at.get((row, k), ())]:
        if setting in tile.kind.choices:
            bits = bits.turned(tile, dict(tile.kind.choices[setting])["NONE"][1] & ~tile.bits)
    return bits


def output_left_as_input(bits: Bits) -> Bits:
    pin = next(pin for port, pin in bits.pin_of.items() if port.endswith("_o_valid"))
    return _with_pad(bits, pin, "BASE_TYPE", "INPUT_LVCMOS33", "OUTPUT_LVCMOS33")


def other_pull(bits: Bits) -> Bits:
    """A pin is pulled up that is pulled down in the board's file."""
    pin = next(pin for port, pin in bits.pin_of.items() if port.endswith("_valid"))
    return _with_pad(bits, pin, "PULLMODE", "UP", "DOWN")


def _with_pad(bits: Bits, pin: str, name: str, value: str, instead_of: str) -> Bits:
    """Return the bits with another value of a setting of a pad."""
    from onnx_hw_boards.families.ecp5.bitstream.pads import PackagePins

    (row, column), letter = PackagePins(bits.tiles.device, bits.package, bits.tiles).sites[pin]
    column += letter == "B" and row == 0
    for place in ((row, column), (row + 1, column)):
        for tile in bits.tiles.at[place]:
            setting = f"PIO{letter}.{name}"
            if setting in tile.kind.choices:
                values = dict(tile.kind.choices[setting])
                mask = values[instead_of][0] | values[value][0]
                bits = bits.turned(tile, (tile.bits ^ values[value][1]) & mask)
    return bits


def swapped_pins(bits: Bits) -> Bits:
    """The constraints had two bits of an output the other way round."""
    first, second = (name for name in bits.pin_of if "_o_payload" in name and name.endswith(("[0]", "[1]")))
    swapped = {**bits.pin_of, first: bits.pin_of[second], second: bits.pin_of[first]}
    return Bits(bits.tiles, bits.contents, bits.package, swapped)


FAULTS: dict[Fault, str] = {
    flipped_table_bit: "depend on other inputs|golden|predicted",
    moved_arc: "depend on other inputs|golden|predicted|drives itself|TRELLIS_COMB in the bitstream",
    lost_arc: "depend on other inputs|golden|predicted",
    inverted_clock: "another clock edge",
    inverted_reset: "depend on other inputs|golden|predicted",
    other_value_of_reset: "depend on other inputs|golden|predicted",
    lost_enable: "depend on other inputs|golden|predicted",
    word_of_a_block_ram: "word 0 of the block RAM .*weights0.*: netlist .*, bitstream",
    swapped_address: "depend on other inputs|golden|predicted",
    unsigned_multiplier: "depend on other inputs|golden|predicted",
    missing_register: "depend on other inputs|golden|predicted|explains it",
    output_left_as_input: "_o_valid`: OUTPUT LVCMOS33, pull down in the board's file, bitstream INPUT",
    other_pull: "_valid`: .*, pull down in the board's file, bitstream .*, pull up",
    swapped_pins: "golden",
}
"""Faults, and what the result says of each."""
