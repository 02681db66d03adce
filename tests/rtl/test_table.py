"""Tables: their storage and their answers."""

from __future__ import annotations

import re
from random import Random

import pytest
from amaranth.sim import Simulator, SimulatorContext

from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw_boards.families.ice40.recipes import ICE40_UP
from onnx_hw_rtl.parts.table import Table
from onnx_hw_rtl.target import Target


@pytest.mark.parametrize("seed", range(6))
def test_a_table_stores_bits_that_are_alike_once(seed: int) -> None:
    """Store equal columns once: of many facts about a group (a row, a column, a place) some bits agree."""
    draw = Random(seed)
    kinds = [draw.getrandbits(40) for _ in range(3)]
    columns = [draw.choice([*kinds, 0, (1 << 40) - 1]) for _ in range(9)]
    words = [sum((column >> k & 1) << bit for bit, column in enumerate(columns)) for k in range(40)]
    table = Table(9, words)
    rtlil = to_rtlil(table, Target(ICE40_UP.primitives()))
    stored = re.findall(r"^  memory width (\d+) size 40", rtlil, re.M)
    assert stored == [str(len(set(columns) - {0, (1 << 40) - 1}))]
    simulator, answers = Simulator(table), list[int]()
    simulator.add_clock(1e-6)

    async def ask(bench: SimulatorContext) -> None:
        for k in range(len(words)):
            bench.set(table.index, k)
            await bench.tick().repeat(Table.LATENCY)
            answers.append(bench.get(table.data))

    simulator.add_testbench(ask)
    simulator.run()
    assert answers == words
