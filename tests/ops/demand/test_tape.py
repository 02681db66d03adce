"""Demand of what brings weights from outside the chip, against what yosys makes of the circuits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.lib.wiring import Component

import onnx_hw_boards
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw.assemble.shell_area import shell_cells
from onnx_hw.ops.demand.tape import deal_demand, reader_demand
from onnx_hw.ops.outbox import outbox_resources
from onnx_hw_boards.demand import Demand
from onnx_hw_boards.memory import WeightMemory
from onnx_hw_link.flash_tape import whole_rows
from onnx_hw_rtl.memory.deal import Deal, DealtPort
from onnx_hw_rtl.memory.qspi_flash import QspiFlashReader
from onnx_hw_tools import tools
from support.taped_designs import perceptron

MEMORY = WeightMemory(bytes=1 << 24, offset=0x200000)
BOARD = onnx_hw_boards.board("ulx3s")


def made_of(circuit: Component, folder: Path) -> tuple[int, int]:
    """Return the look-up tables, those of carries included, and the flip-flops of a circuit."""
    (folder / "top.il").write_text(to_rtlil(circuit))
    script = "read_rtlil top.il; synth_ecp5 -nowidelut -top top; tee -o stat.txt stat"
    tools.run(tools.find("yosys"), ["-q", "-p", script], cwd=folder, log=folder / "log.txt")
    lines = (folder / "stat.txt").read_text().splitlines()
    counts = {line.split()[-1]: int(line.split()[0]) for line in lines if line and line.split()[0].isdigit()}
    return counts["LUT4"] + 2 * counts.get("CCU2C", 0), counts["TRELLIS_FF"]


def compare(demand: Demand, fifos: list[tuple[int, int]], circuit: Component, folder: Path) -> None:
    """Compare the estimate of a demand, and of the FIFOs (bits, depth) behind it, with a circuit."""
    said, (lut, ff) = BOARD.family.cost(demand), made_of(circuit, folder)
    kept = [outbox_resources(bits, depth, BOARD.family.cost, 33) for bits, depth in fifos]
    said_lut, said_ff = said.lut + sum(one.lut for one in kept), said.ff + sum(one.ff for one in kept)
    assert abs(said_lut / lut - 1) <= 0.25 and abs(said_ff / ff - 1) <= 0.15, (said_lut, lut, said_ff, ff)


@pytest.mark.parametrize(("clock_mhz", "size"), [(100, 119_000), (60, 4_000), (133, 3_000_000)])
def test_the_estimate_of_a_reader(clock_mhz: float, size: int, tmp_path: Path) -> None:
    timing, digest = MEMORY.timing(clock_mhz), bytes(range(0x5A, 0x6A))
    reader = QspiFlashReader(timing, address=0x200000, digest=digest, tape_bytes=whole_rows(size), depth=2)
    compare(reader_demand(size, timing), [(8, 2)], reader, tmp_path)


@pytest.mark.parametrize(
    ("bits", "group_words", "runs"), [((16, 8), 32, 40), ((32, 32, 8), 100, 40), ((64,) * 5, 80, 40)]
)
def test_the_estimate_of_a_deal(bits: tuple[int, ...], group_words: int, runs: int, tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    ports = [DealtPort(each, -(-each // 8), group_words - k, 1) for k, each in enumerate(bits)]
    order = [(int(draw.integers(len(ports))), int(draw.integers(1, 8))) for _ in range(runs)]
    compare(
        deal_demand(bits, group_words, 7, runs), [(each, 1) for each in bits], Deal(ports, order, padding=5), tmp_path
    )


def test_a_chip_is_estimated_with_the_reader_of_its_weights() -> None:
    board = find_board("ulx3s")
    taped, alone = (perceptron((16, 24, 4), ((1, 1), (1, 1)), taped=taped).network for taped in (True, False))
    more = shell_cells(taped, board, 60.0).lut - shell_cells(alone, board, 60.0).lut
    assert 150 <= more <= 300
