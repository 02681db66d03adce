"""Pool: golden against its definition, the circuit against golden and against the firing law."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import Folding, SlidingFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.tensor import Tensor
from support.design_bench import assert_proven, prove
from support.hand_built_designs import alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault, stale_accumulator
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image, random_sliding
from support.random_operators import capacities, sliding_foldings, slidings, types
from support.sliding_faults import sliding_faults


@st.composite
def pools(draw: st.DrawFn) -> tuple[Pool, SlidingFolding]:
    s, dtype = draw(slidings()), draw(types)
    kind, pad_value = draw(st.sampled_from(["max", "min", "sum"])), draw(st.integers(dtype.min, dtype.max))
    pool = Pool(Tensor(s.shape, dtype), kind, s.kernel, s.strides, s.pads, pad_value, s.dilations)
    folding = draw(sliding_foldings(s, s.shape[2]))
    return replace(pool, capacity=draw(capacities(pool, folding))), folding


def random_pool(draw: Random) -> Operator:
    return Pool(random_image(draw), draw.choice(("max", "sum")), **random_sliding(draw))


IMAGE = Tensor((5, 4, 3), Int(8))


@few
@given(cases(pools()))
def test_any_pool(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize(("channels", "lanes"), [(3, (5, 7)), (3, (2, 2)), (16, (5, 7)), (16, (7, 5)), (16, (4, 8))])
def test_ragged_cuts(kind: str, channels: int, lanes: tuple[int, int]) -> None:
    pool = Pool(Tensor((4, 3, channels), Int(8)), kind, (2, 2), (2, 1), (1, 0, 0, 1), pad_value=-128)
    Case(pool, SlidingFolding(*lanes)).check()


@pytest.mark.parametrize("dtype", [Int(8), Int(8, False), Int(1), Int(16)])
def test_sums_of_extremes_fit(dtype: Int) -> None:
    pool = Pool(Tensor((3, 3, 2), dtype), "sum", (3, 3), pads=(1, 1, 1, 1), pad_value=dtype.min)
    for seed in range(3):
        Case(pool, SlidingFolding(2, 2), seed=seed).check()


@many
@given(pools())
def test_golden_is_the_definition(drawn: tuple[Pool, Folding]) -> None:
    pool, _ = drawn
    (height, width, channels), (rows, columns) = pool.operand.shape, pool.kernel
    (top, left, _, _), (sy, sx), (dy, dx) = pool.pads, pool.strides, pool.dilations
    image = np.arange(height * width * channels).reshape(1, height, width, channels)
    (result,) = pool.golden(image)
    fold = {"max": max, "min": min, "sum": sum}[pool.kind]
    for row, column, channel in product(*map(range, result.shape[1:])):
        places = [(row * sy - top + r * dy, column * sx - left + c * dx) for r in range(rows) for c in range(columns)]
        values = [
            int(image[0, y, x, channel]) if 0 <= y < height and 0 <= x < width else pool.pad_value for y, x in places
        ]
        assert result[0, row, column, channel] == fold(values)  # type: ignore[operator]


@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_one_beat_less_than_the_live_capacity_deadlocks(strides: tuple[int, int]) -> None:
    pool = Pool(IMAGE, "max", (2, 2), strides)
    live = pool.sliding.live_capacity(2)
    assert_proven(prove(alone(replace(pool, capacity=live), (2, 3), 4)))
    run = prove(alone(replace(pool, capacity=live - 1), (2, 3), 4))
    assert_proven(run, live=False)
    assert [line.split(" waits")[0] for line in run.deadlock] == ["node.writer", "node.reader"]


def test_full_rate() -> None:
    """No bubble at steady state: the interval is the number of operations of the busier engine."""
    reads = Case(Pool(IMAGE, "sum", (3, 3), pads=(1, 1, 1, 1)), SlidingFolding(3, 3), stalls=False, frames=4).check()
    assert reads.interval_cycles == 5 * 4 * 9
    writes = Case(Pool(IMAGE, "max", (2, 2), (2, 2)), SlidingFolding(1, 3), depth=2, stalls=False, frames=4).check()
    assert writes.interval_cycles == 5 * 4 * 3


@many
@given(pools())
def test_facts(drawn: tuple[Pool, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    assert_foldings_keep_up(Pool(IMAGE, "max", (2, 2), (2, 2)))


def test_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="a max, a min or a sum, not 'mean'"):
        Pool(IMAGE, "mean", (2, 2))
    with pytest.raises(ValueError, match="at least one beat, not 0"):
        Pool(IMAGE, "max", (2, 2), capacity=0)


# ---- for the tests of every core -----------------------------------------------------------------------------------


STRATEGIES = {"pool": pools()}
DRAWS = {"pool": random_pool}
TALL = Tensor((5, 4, 4), Int(8))
CASES = {
    "pool": Case(Pool(TALL, "sum", (2, 2), (2, 2), (0, 0, 1, 1), capacity=8), SlidingFolding(4, 2), depth=2, seed=1),
    "narrow pool": Case(Pool(Tensor((9, 1, 2), Int(8)), "max", (1, 1), capacity=2), SlidingFolding(2, 2), depth=9),
    "pool of pixels": Case(
        Pool(TALL, "sum", (2, 2), (2, 2), (0, 0, 1, 1), capacity=8), SlidingFolding(4, 2, 4, 2), depth=2, seed=1
    ),
}
FAULTS = [*sliding_faults("pool"), Fault("an accumulator is stale in frame two", stale_accumulator)]
NARROW_CORES = {
    "pool": (Pool(NARROW_IMAGE, "max", (2, 2)), SlidingFolding(2, 3)),
}
WIDE_CORES = {
    "pool": (Pool(WIDE_IMAGE, "max", (2, 2)), SlidingFolding(32, 8)),
}
