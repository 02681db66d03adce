"""Link 5: a bitstream is unpacked into the netlist that it was made of, and faults in it are caught."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from onnx_hw.prove.circuit import bitstream
from onnx_hw.report import proof_chain
from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles
from onnx_hw_boards.families.ecp5.bitstream.netlist import read_configuration, unpack
from onnx_hw_boards.families.ecp5.bitstream.tile_database import DatabaseMissing, database
from onnx_hw_boards.families.unpacked_bitstream import DamagedBitstream
from onnx_hw_tools import tools
from support.bitstream_bench import BitstreamBench, assert_another_build_is_named, assert_named
from support.bitstream_flips import drawn_flips
from support.injected_bitstream_faults import FAULTS, Bits, Fault
from support.recorded_bitstream import recorded, unpacked_by_others
from support.turned_ecp5_bits import file_with_turned_bit

Bench = BitstreamBench[Bits]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    try:
        tools.find("c++")
        database()
    except (tools.ToolMissing, DatabaseMissing) as missing:
        pytest.skip(str(missing))
    chip = recorded(tmp_path_factory.mktemp("recorded"))
    board = chip.chip.target.board
    configuration = read_configuration(chip.data, board.device.name)
    pin_of = dict(re.findall(r'LOCATE COMP "(.+?)" SITE "(.+?)"', chip.chip.constraints))
    tiles = ChipTiles(board.device.name, configuration.frames)
    return BitstreamBench(chip, Bits(tiles, configuration.block_rams, board.package, pin_of), pin_of)


def test_a_sound_bitstream_is_its_netlist(bench: Bench) -> None:
    chip = bench.chip
    found = bitstream.check(chip.design, chip.chip, chip.netlist, chip.routed, chip.data, bench.frames)
    assert found.agrees, (found.difference, found.obstacle)
    assert found.runs == 64 and found.values == found.frames * 72
    assert found.elements > 300 and found.blocks == 2 and found.unread_sites == 0
    assert found.pins == len(bench.bits.pin_of)
    assert found.sites == {kind: sites.used for kind, sites in chip.routed.utilisation.items() if kind in found.sites}
    assert found.bits > 10_000 and found.featureless < 100
    link = proof_chain.netlist_bitstream(found)
    assert link.state == "proven" and link.values == found.values


def test_another_program_reads_the_same_bits(bench: Bench) -> None:
    """Project Trellis' own unpacker, whose text is recorded: all arcs, tables, and contents of block RAMs."""
    arcs: dict[str, dict[str, str]] = defaultdict(dict)
    tables: dict[str, dict[str, str]] = defaultdict(dict)
    rams: dict[int, list[int]] = defaultdict(list)
    tile, ram = "", -1
    for line in unpacked_by_others("ecp5").splitlines():
        words = line.split()
        if line.startswith(".tile"):
            tile = words[1]
        elif line.startswith(".bram_init"):
            ram = int(words[1])
        elif line.startswith("arc:"):
            arcs[tile][words[1]] = words[2]
        elif line.startswith("word:") and words[1].endswith(".INIT"):
            tables[tile][words[1]] = words[2]
        elif ram >= 0 and words and ":" not in line:
            rams[ram] += [int(word, 16) for word in words]
    assert sum(map(len, arcs.values())) > 2000 and sum(map(len, tables.values())) > 200
    for each in bench.bits.tiles:
        theirs = arcs[each.name]  # also names sources that a bit chooses by not being set
        choices = each.kind.multiplexers if each.bits or theirs else ()
        chosen = {choice.sink: choice.chosen(each.bits) for choice in choices}
        assert {sink: of[0][-1] for sink, of in chosen.items() if of[1] or sink in theirs} == theirs, each.name
        for name, text in tables[each.name].items():
            assert each.word(name) == int(text, 2), (each.name, name)
    assert set(rams) == set(bench.bits.contents)
    for number, contents in rams.items():
        assert bench.bits.contents[number].tolist() == contents


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_faults_in_the_bits_are_named(bench: Bench, fault: Fault) -> None:
    assert_named(bench.compare(fault(bench.bits)), FAULTS[fault])


def test_the_bitstream_of_another_build_is_named(bench: Bench) -> None:
    assert_another_build_is_named(bench, "ecp5")


def test_damaged_files_are_named(bench: Bench) -> None:
    data = bench.chip.data
    broken = bytearray(data)
    broken[len(data) // 2] ^= 16
    cases = (
        (data[: len(data) // 2], r"the file ends after [\d,]+ bytes"),
        (bytes(broken), "checksum|the middle of"),
        (b"", "it has no preamble"),
        (data.replace(bytes.fromhex("41113043"), bytes.fromhex("41111043")), "frames|checksum"),
    )
    for file, said in cases:
        with pytest.raises(DamagedBitstream, match=said):
            read_configuration(file, "LFE5U-85F")
    with pytest.raises(DamagedBitstream, match="for the chip LFE5U-85F, not for LFE5U-45F"):
        read_configuration(data, "LFE5U-45F")


def test_random_bits_are_refused_or_change_no_cell(bench: Bench) -> None:
    for place in drawn_flips(bench.bits.used(), 8, seed=1):
        flipped = bench.bits.flipped(place)
        found = bench.compare(flipped)
        same = flipped.unpacked.netlist.cells == bench.bits.unpacked.netlist.cells
        assert same or not found.agrees, bench.bits.name(place)


def test_a_bit_that_is_turned_over_in_the_file_is_the_same(bench: Bench) -> None:
    board = bench.chip.chip.target.board
    tile, bit = next(drawn_flips(bench.bits.used(), 1, seed=4))
    file = file_with_turned_bit(bench.chip.data, board.device.name, tile.name, bit)
    by_file = unpack(file, board.device.name, board.package, bench.pin_of)
    flipped = bench.bits.flipped((tile, bit)).unpacked
    assert by_file.bits == flipped.bits == bench.bits.unpacked.bits - 1
    assert by_file.netlist.cells == flipped.netlist.cells and by_file.problems == flipped.problems
