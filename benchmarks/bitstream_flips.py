"""How many single bits of a bitstream, turned over, does link 5 of the proof refuse?

    python benchmarks/bitstream_flips.py [--board ecp5|up5k] [--count N] [--seed N] [--files]

Draws N set bits that are in use, of each kind of setting in turn, from the recorded chip of the tests
(``support.recorded_bitstream``), turns each over in the unpacked form, and compares as a build does: pins and settings,
contents of block RAMs, structure; and where none of these differs but the cells do, the simulation. Every tenth bit is
turned over in the file, too, with new checksums, and both must unpack to the same cells, pins and problems. ``--files``
does nothing else, with every bit.

Prints a table by kind of setting, and every bit that changes cells and is not refused.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_hw.prove.circuit import bitstream
from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles
from onnx_hw_boards.families.ecp5.bitstream.netlist import read_configuration
from onnx_hw_boards.families.ecp5.bitstream.netlist import unpack as unpack_ecp5
from onnx_hw_boards.families.ice40.bitstream.configuration_file import read_banks
from onnx_hw_boards.families.ice40.bitstream.die_bits import DieBits
from onnx_hw_boards.families.ice40.bitstream.netlist import unpack
from onnx_hw_boards.families.unpacked_bitstream import UnpackedBitstream
from support.bitstream_flips import drawn_flips
from support.design_bench import random_frames
from support.injected_bitstream_faults import Bits
from support.injected_ice40_bitstream_faults import IceBits, with_turned_bit
from support.recorded_bitstream import RecordedChip, recorded
from support.turned_ecp5_bits import file_with_turned_bit


@dataclass(frozen=True)
class Flippable:
    """The bits of the recorded chip.

    Attributes:
        bits: bits of the family, which know those in use and their names.
        pin_of: pin of each bit of a port.
        by_file: function that turns over the same bit in the file and unpacks that.
    """

    bits: Any
    pin_of: dict[str, str]
    by_file: Callable[[Any], UnpackedBitstream]


def ecp5(chip: RecordedChip) -> Flippable:
    board = chip.chip.target.board
    configuration = read_configuration(chip.data, board.device.name)
    pin_of = dict(re.findall(r'LOCATE COMP "(.+?)" SITE "(.+?)"', chip.chip.constraints))
    tiles = ChipTiles(board.device.name, configuration.frames)

    def by_file(place: Any) -> UnpackedBitstream:
        tile, bit = place
        file = file_with_turned_bit(chip.data, board.device.name, tile.name, bit)
        return unpack_ecp5(file, board.device.name, board.package, pin_of)

    return Flippable(Bits(tiles, configuration.block_rams, board.package, pin_of), pin_of, by_file)


def up5k(chip: RecordedChip) -> Flippable:
    board = chip.chip.target.board
    pin_of = dict(re.findall(r"^set_io (\S+) (\S+)", chip.chip.constraints, re.MULTILINE))
    bits = IceBits(DieBits("5k", read_banks(chip.data)), board.package, pin_of)

    def by_file(place: Any) -> UnpackedBitstream:
        return unpack(with_turned_bit(chip.data, "5k", place), board.device.name, board.package, pin_of)

    return Flippable(bits, pin_of, by_file)


def verdict(chip: RecordedChip, what: Flippable, flipped: UnpackedBitstream) -> str:
    """Return who refuses a bit, or why nobody has to."""
    frames = random_frames(chip.design, 6, 1)
    found = bitstream.compare(chip.design, chip.chip, chip.netlist, chip.routed, flipped, what.pin_of, frames)
    if found.wrong:
        return "a pin, a value, a cycle or contents"
    if flipped.problems:
        return "a setting that is not understood"
    if found.obstacle:
        return "structure" if "depend on other inputs" in found.obstacle else "a cell without a model"
    same = flipped.netlist.cells == what.bits.unpacked.netlist.cells
    return "no cell changes" if same else "the same structure"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", choices=("ecp5", "up5k"), default="up5k")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        chip = recorded(Path(place), given.board)
        what = {"ecp5": ecp5, "up5k": up5k}[given.board](chip)
        kinds = what.bits.used()
        kind_of = {id(bit): kind for kind, places in kinds.items() for bit in places}
        table: Counter[tuple[str, str]] = Counter()
        through_file = 0
        for number, bit in enumerate(drawn_flips(kinds, given.count, given.seed)):
            flipped = what.bits.flipped(bit).unpacked
            said = "not compared" if given.files else verdict(chip, what, flipped)
            table[kind_of[id(bit)], said] += 1
            if said == "the same structure":
                print(f"cells change, and the structure stays: {what.bits.name(bit)}", flush=True)
            if given.files or number % 10 == 0:
                other = what.by_file(bit)
                assert other.netlist.cells == flipped.netlist.cells and other.problems == flipped.problems
                assert other.pads == flipped.pads and other.bits == flipped.bits
                through_file += 1
    verdicts = sorted({said for _, said in table})
    print(f"| setting | bits | {' | '.join(verdicts)} |")
    for kind in sorted(kinds):
        counts = [table[kind, said] for said in verdicts]
        print(f"| {kind} | {sum(counts)} | {' | '.join(map(str, counts))} |")
    totals = [sum(table[kind, said] for kind in kinds) for said in verdicts]
    print(f"| all | {sum(totals)} | {' | '.join(map(str, totals))} |")
    print(f"{through_file} bits were turned over in the file, too")


if __name__ == "__main__":
    main()
