"""Link 5 on boards with a link: the bitstream of a ULX3S, PLL and pads included, through its pins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onnx_hw.prove.circuit import bitstream, pin_level
from onnx_hw.report import proof_chain
from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles, frame_shapes
from onnx_hw_boards.families.ecp5.bitstream.netlist import read_configuration
from onnx_hw_boards.families.ecp5.bitstream.pads import PackagePins
from onnx_hw_boards.families.ecp5.bitstream.tile_database import DatabaseMissing, database
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_tools import tools
from support.bitstream_bench import BitstreamBench, assert_named
from support.injected_bitstream_faults import Bits, missing_register, word_of_a_block_ram
from support.recorded_bitstream import recorded

Bench = BitstreamBench[Bits]


@pytest.fixture(autouse=True)
def one_frame_in_each_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pin_level, "SECONDS", 0)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    try:
        tools.find("c++")
        database()
    except (tools.ToolMissing, DatabaseMissing) as missing:
        pytest.skip(str(missing))
    chip = recorded(tmp_path_factory.mktemp("recorded"), "ulx3s")
    board = chip.chip.target.board
    assert isinstance(board, LinkedBoard)
    pin_of = {pad.port: pad.pin for pad in board.pads.values()}
    configuration = read_configuration(chip.data, board.device.name)
    tiles = ChipTiles(board.device.name, configuration.frames)
    return BitstreamBench(chip, Bits(tiles, configuration.block_rams, board.package, pin_of), pin_of)


def test_a_sound_bitstream_is_its_netlist(bench: Bench) -> None:
    chip = bench.chip
    found = bitstream.check(chip.design, chip.chip, chip.netlist, chip.routed, chip.data, bench.frames)
    assert found.agrees, (found.difference, found.obstacle)
    assert found.runs == found.frames == 64 and found.values == 64 * 72 and found.tokens >= 48
    assert found.elements > 500 and found.blocks == 4 and found.pins == 3
    assert found.sites == {kind: sites.used for kind, sites in chip.routed.utilisation.items() if kind in found.sites}
    assert found.sites["EHXPLLL"] == 1
    link = proof_chain.netlist_bitstream(found)
    assert link.state == "proven" and "through the pins, UART at 3,000,000 baud" in link.compared


def divider(name: str) -> Callable[[Bits], Bits]:
    def fault(bits: Bits) -> Bits:
        tile = next(tile for tile in bits.tiles if tile.bits and name in tile.kind.words and tile.word(name))
        return bits.turned(tile, tile.kind.words[name][0][0])

    return fault


def no_feedback(bits: Bits) -> Bits:
    """The arc to the PLL's input for what it feeds back is lost."""
    tile = next(tile for tile in bits.tiles if tile.bits and tile.kind.name.startswith("PLL0"))
    choice = next(m for m in tile.kind.multiplexers if m.sink.endswith("_CLKFB"))
    return bits.turned(tile, tile.bits & choice.mask)


def swapped_pins(bits: Bits) -> Bits:
    """What the bits of another constraints file would be: here the board's file has the pins the other way round."""
    one, other = "uart_0__rx__io", "uart_0__tx__io"
    pin_of = {**bits.pin_of, one: bits.pin_of[other], other: bits.pin_of[one]}
    return Bits(bits.tiles, bits.contents, bits.package, pin_of)


FAULTS = {
    divider("CLKOS_DIV"): r"the clock must be 60 MHz; the bitstream makes \d[\d.]* MHz of the oscillator",
    divider("CLKOP_DIV"): r"the clock must be 60 MHz; ",
    no_feedback: r"CLKINTFB_PLL of R\d+C\d+ drives the circuit, and its kind of cell is not known",
    swapped_pins: r"pin L4, `uart_0__rx__io`: INPUT LVCMOS33, pull none in the board's file, bitstream OUTPUT",
    missing_register: r"depend on other inputs|golden|predicted|explains it",
    word_of_a_block_ram: r"word \d+ of the block RAM .*: netlist .*, bitstream",
}


def test_faults_in_the_bits_are_named(bench: Bench) -> None:
    for fault, named in FAULTS.items():
        bits = fault(bench.bits)
        assert_named(bench.compare(bits, pin_of=bits.pin_of), named)


def test_strength_of_an_output_hides_bits_of_its_type(bench: Bench) -> None:
    """Where both pads of a pair are in one tile, 4 mA turn bits over that tell LVCMOS33 from other types."""
    device = "LFE5U-25F"
    (shape,) = (shape for name, shape in frame_shapes().values() if name == device)
    tiles = ChipTiles(device, np.zeros((shape.frames, shape.bits), dtype=bool))
    for place in ((24, 72), (25, 72)):
        for tile in tiles.at[place]:
            bits = 0
            for setting, value in (("PIOD.BASE_TYPE", "OUTPUT_LVCMOS33"), ("PIOD.DRIVE", "4")):
                mask, pattern = dict(tile.kind.choices.get(setting, ())).get(value, (0, 0))
                bits = bits & ~mask | pattern
            tile.bits = bits
    pad = PackagePins(device, "CABGA256", tiles).pad("K15")
    assert pad.direction == "OUTPUT" and "LVCMOS33" in pad.standards
    assert "SSTL15_II" not in pad.standards
