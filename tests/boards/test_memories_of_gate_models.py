"""First contents of memories: read from a bitstream where a model knows them, refused where none does."""

from __future__ import annotations

import lzma
from importlib import import_module

import numpy as np
import pytest

from onnx_hw_boards.families.ecp5.bitstream.chip_tiles import ChipTiles
from onnx_hw_boards.families.ecp5.bitstream.netlist import read_configuration, unpack_tiles
from onnx_hw_boards.families.ecp5.bitstream.tile_database import DatabaseMissing, database
from onnx_hw_boards.families.ecp5.cell_models import LIBRARY, rows_of
from onnx_hw_sim.gates.cell_models import Parts, UnmodelledCell
from onnx_hw_sim.gates.netlist import ONE, ZERO, ChipCell
from support import recorded_wide_memories as wide


@pytest.fixture(scope="module")
def tiles_and_contents() -> tuple[ChipTiles, dict[int, np.ndarray]]:
    try:
        database()
    except DatabaseMissing as missing:
        pytest.skip(str(missing))
    configuration = read_configuration(lzma.decompress(wide.FILE.read_bytes()), wide.DEVICE)
    return ChipTiles(wide.DEVICE, configuration.frames), dict(configuration.block_rams)


def test_words_of_36_bits_are_read_from_a_bitstream(
    tiles_and_contents: tuple[ChipTiles, dict[int, np.ndarray]],
) -> None:
    unpacked = unpack_tiles(*tiles_and_contents, wide.PACKAGE, wide.pin_of())
    assert not unpacked.problems
    rams = [cell for cell in unpacked.netlist.cells if cell.kind == "DP16KD"]
    assert sorted(map(rows_of, rams)) == sorted(map(wide.contents, range(wide.MEMORIES)))
    parts = Parts(unpacked.netlist.nets, unpacked.netlist.ports["clk"][0])
    for cell in rams:
        LIBRARY.models["DP16KD"](cell, parts)
    for block in parts.blocks:
        writes, reads = block.ports
        assert (writes.width, reads.width, writes.write, reads.write) == (36, 36, ONE, ZERO)
        assert len(set(writes.mask) - {ONE, ZERO}) == 1 and not block.rubbish
        assert reads.address[5:] == unpacked.netlist.ports["address"]
        assert None not in reads.out


def test_a_block_ram_with_the_number_of_another_has_its_contents(
    tiles_and_contents: tuple[ChipTiles, dict[int, np.ndarray]],
) -> None:
    tiles, contents = tiles_and_contents
    turned = {
        number: contents[other]
        for number, other in zip(contents, [*list(contents)[1:], next(iter(contents))], strict=True)
    }
    pairs = []
    for each in (contents, turned):
        unpacked = unpack_tiles(tiles.changed(next(iter(tiles)).name, 0), each, wide.PACKAGE, wide.pin_of())
        pairs.append({cell.name: rows_of(cell) for cell in unpacked.netlist.cells if cell.kind == "DP16KD"})
    assert all(pairs[0][name] != pairs[1][name] for name in pairs[0])


@pytest.mark.parametrize(
    ("family", "kind", "parameter"), [("ecp5", "TRELLIS_DPR16X4", "INITVAL"), ("gowin", "RAM16SDP4", "INIT_2")]
)
def test_first_contents_of_a_memory_in_look_up_tables_are_refused(family: str, kind: str, parameter: str) -> None:
    model = import_module(f"onnx_hw_boards.families.{family}.cell_models").LIBRARY.models[kind]
    clock = "WCK" if family == "ecp5" else "CLK"
    pins = {"DI": (2, 3, 4, 5), "WAD": (6, 7, 8, 9), "RAD": (10, 11, 12, 13), "DO": (14, 15, 16, 17), clock: (18,)}
    for bits, refused in (("x" * 16, False), ("0" * 16, False), ("x" * 15 + "1", True)):
        parts = Parts(20, 18)
        cell = ChipCell("memory", kind, {parameter: bits}, {**pins, "WRE": (19,)})
        if refused:
            with pytest.raises(UnmodelledCell, match="first contents"):
                model(cell, parts)
        else:
            model(cell, parts)
            assert len(parts.small) == 1
