"""Tables of where the elements of a window lie: of many channels, that of the first ones alone is stored."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import onnx_hw_boards
from onnx_hw.assemble.elaborate import to_rtlil
from onnx_hw.exact.integers import Int
from onnx_hw.ops.demand import sliding as sliding_demand
from onnx_hw.ops.depthwise import Depthwise, DepthwiseFolding
from onnx_hw.ops.folding import SlidingFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.cost_model import Cost
from onnx_hw_boards.families.ecp5.recipes import ECP5
from onnx_hw_rtl.cores import sliding as circuit
from onnx_hw_rtl.target import Target
from support.random_cases import Case

TABLE = re.compile(r"^module \\\S*table\d+$(.*?)^end$", re.M | re.S)
WORDS = re.compile(r"^  memory width \d+ size (\d+) ", re.M)


def depthwise(
    image: tuple[int, int, int], kernel: tuple[int, int] = (3, 3), times: int = 1, **slides: Any
) -> Depthwise:
    weights = np.random.default_rng(0).integers(-128, 128, (image[2] * times, *kernel))
    return Depthwise(Tensor(image, Int(8)), weights, **{"pads": (1, 1, 1, 1), "pad_value": -128} | slides)


def pool(image: tuple[int, int, int]) -> Pool:
    return Pool(Tensor(image, Int(8)), "max", (2, 2), (2, 1), (0, 1, 0, 0), pad_value=-128)


FOLDED: list[tuple[Operator[Any], Any, bool]] = [
    (depthwise((2, 3, 6)), DepthwiseFolding(1, 1), True),
    (depthwise((2, 3, 6)), DepthwiseFolding(2, 2), True),
    (depthwise((2, 3, 6)), DepthwiseFolding(1, 3), True),
    (depthwise((2, 3, 7)), DepthwiseFolding(1, 2, taps=2), False),  # channels behind the last one lie nowhere
    (depthwise((2, 3, 6)), DepthwiseFolding(2, 1), False),  # another half of the same beat
    (depthwise((2, 3, 6)), DepthwiseFolding(1, 2, taps=4), True),
    (depthwise((4, 2, 5), (3, 1), pads=(1, 0, 1, 0), dilations=(2, 1)), DepthwiseFolding(1, 1), True),
    (depthwise((3, 4, 5), (1, 3), pads=(0, 1, 0, 2), strides=(1, 2)), DepthwiseFolding(1, 1), True),
    (depthwise((2, 4, 5)), DepthwiseFolding(1, 1, 2, 2), True),
    (depthwise((2, 3, 4), times=2), DepthwiseFolding(1, 2), True),
    (depthwise((2, 3, 4), times=2), DepthwiseFolding(1, 1), False),  # each channel twice
    (pool((4, 3, 6)), SlidingFolding(1, 1), True),
    (pool((4, 3, 6)), SlidingFolding(2, 4), True),
]


@pytest.mark.parametrize("case", range(len(FOLDED)))
def test_places_of_the_next_channels_are_added(case: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value and every firing agrees, and the demand knows of which cores there is one table for all channels."""
    operator, folding, added = FOLDED[case]
    monkeypatch.setattr(circuit, "MAX_TABLE_WORDS", 3)
    monkeypatch.setattr(sliding_demand, "MAX_TABLE_WORDS", 3)
    sliding_demand.sliding_demand.cache_clear()
    in_demand = spied(sliding_demand, "_tables_of_steps", monkeypatch)
    in_circuit = spied(circuit.SlidingBuffer, "_shift_of_chunks", monkeypatch)
    operator.demand(folding)
    Case(operator, folding, depth=1 + case % 5, seed=case).check()
    sliding_demand.sliding_demand.cache_clear()
    assert {result is not None for result in (*in_demand, *in_circuit)} == {added}


def spied(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list of what a function has returned since."""
    function: Callable[..., Any] = getattr(owner, name)
    results: list[Any] = []

    def called(*arguments: Any) -> Any:
        results.append(function(*arguments))
        return results[-1]

    monkeypatch.setattr(owner, name, called)
    return results


def test_many_channels() -> None:
    """One more channel than the tables of which fit a block RAM."""
    Case(depthwise((1, 2, 65)), DepthwiseFolding(1, 1), frames=2).check()


@pytest.mark.parametrize(("channels", "words"), [(64, 1017), (65, 16), (336, 16)])
def test_a_table_never_takes_several_block_rams(channels: int, words: int) -> None:
    operator = depthwise((4, 4, channels))
    rtlil = to_rtlil(operator.core(DepthwiseFolding(1, 1), {"o": 2}), Target(ECP5.primitives()))
    tables = [sizes for body in TABLE.findall(rtlil) if (sizes := WORDS.findall(body))]
    assert [int(size) for sizes in tables for size in sizes] == ([words] if words > 16 else [])


def test_what_a_core_of_many_channels_takes() -> None:
    """The ring of 8,192 elements in 4 block RAMs, and 3,024 weights in 2; the table of all channels would be 6 more."""
    cost = Cost.of(onnx_hw_boards.board("ulx3s").family)
    assert cost(depthwise((4, 4, 336)), DepthwiseFolding(1, 1)).bram <= 6
