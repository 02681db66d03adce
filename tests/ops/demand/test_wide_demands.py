"""Demands of very wide cores, such as products with 200,000 results: they are as short as those of narrow ones."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnx_hw_boards
from onnx_hw.ops.demand.blocks import BITS_PER_ADDRESS_COPY, counted, delayed, loaded_weights, position, rom, weights
from onnx_hw.ops.demand.blocks import unlike as differing
from onnx_hw_boards.demand import Demand, Memory
from onnx_hw_boards.families.family import Family

FAMILIES = {board.family.name: board.family for board in map(onnx_hw_boards.board, onnx_hw_boards.names())}
spans = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda ends: (min(ends), max(ends)))


@given(st.integers(1, 60), st.lists(spans, max_size=5), st.integers(1, 40))
def test_columns_are_those_of_the_bits_that_are_read(width: int, read: list[tuple[int, int]], bits: int) -> None:
    parts = read or [(0, width)]
    columns = {bit // bits for first, last in parts for bit in range(first, last)}
    columns |= {first // bits for first, last in parts if first == last and first % bits}
    assert Memory(width, 16, read=tuple(read)).columns(bits) == len(columns)


def test_columns_of_a_wide_word_are_not_listed() -> None:
    wide = Memory(1_000_000, 16)
    tracemalloc.start()
    assert wide.columns(1) == 1_000_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000


def one_by_one(bits: int, lanes: int, words: int, in_logic: bool | None) -> Demand:
    """The demand of ``weights``, memory by memory."""
    per_rom = max(1, BITS_PER_ADDRESS_COPY // bits)
    roms = [min(per_rom, lanes - first) for first in range(0, lanes, per_rom)]
    demand = position(words) + delayed(counted(words), 1) + delayed(counted(words), 1).copied(len(roms))
    for size in roms:
        stored = size * bits if in_logic is False else differing(size * bits, words)
        demand += rom(stored, words, in_logic) + delayed(stored, 1)
    return demand


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@given(st.integers(1, 16), st.integers(1, 200), st.integers(2, 5000), st.sampled_from([None, False]))
def test_weights_cost_what_their_memories_do(
    family: Family, bits: int, lanes: int, words: int, in_logic: bool | None
) -> None:
    together = family.cost(weights(bits, lanes, words, waits=1, in_logic=in_logic))
    apart = family.cost(one_by_one(bits, lanes, words, in_logic))
    assert (together.ff, together.dsp, together.bram) == (apart.ff, apart.dsp, apart.bram)
    assert abs(together.lut - apart.lut) <= 1  # sums of fractions are rounded at last


@pytest.mark.parametrize("demand", [weights, loaded_weights])
def test_a_demand_is_hardly_longer_for_more_weights(demand: Callable[..., Demand]) -> None:
    few, many = (demand(8, lanes, 300, waits=1) for lanes in (101, 200_001))
    assert len(few.parts) < 30 and len(many.parts) < 30
