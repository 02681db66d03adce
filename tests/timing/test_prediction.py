"""The firing law by arithmetic alone: cases computed by hand, full rate, liveness. No simulation here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design, FifoSize
from onnx_hw.ops.add import Add
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.outbox import DEEPEST_IN_LUTRAM, visible_after
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.timing.prediction import Prediction, predict
from support import core_tests
from support.design_bench import assert_proven, no_stall, prove
from support.hand_built_designs import Sketch, alone, folded, unequal_branches
from support.random_cases import MOST_OPERATIONS
from support.random_designs import chains, residuals
from support.solvers import assert_solvers_agree, needs_compiler
from support.targets import with_deepest

gearboxes = core_tests.load("gearbox").gearboxes
matmuls = core_tests.load("matmul").matmuls
pools = core_tests.load("pool").pools
windows = core_tests.load("window").windows


def row(pixels: int, channels: int = 1) -> Tensor:
    return Tensor((1, pixels, channels), Int(8))


def solve(design: Design, frames: int = 1, **arguments: object) -> Prediction:
    offers = no_stall(design, frames).offers
    return predict(design, frames, **{"offers": offers, **arguments})  # type: ignore[arg-type]


def fires(prediction: Prediction, engine: str, node: str = "node") -> list[int]:
    return prediction.fires[node, engine].tolist()  # type: ignore[no-any-return]


# ---- by hand ------------------------------------------------------------------------------------------------------


def test_a_token_is_visible_after_the_pipeline_and_the_fifo() -> None:
    """L = 1, V = 1: popped two cycles after the firing."""
    prediction = solve(alone(Add(row(3), row(3)), (1, 1), 8))
    assert fires(prediction, "add") == [0, 1, 2]
    assert prediction.sinks["node.o"].tolist() == [2, 3, 4]
    assert prediction.latency() == 5


def test_block_ram_takes_two_cycles_more() -> None:
    assert visible_after(DEEPEST_IN_LUTRAM) == 1 and visible_after(DEEPEST_IN_LUTRAM + 1) == 3
    prediction = solve(alone(Add(row(3), row(3)), (1, 1), DEEPEST_IN_LUTRAM + 1))
    assert prediction.sinks["node.o"].tolist() == [4, 5, 6]


@pytest.mark.parametrize(("depth", "deepest", "first"), [(5, 5, 2), (6, 5, 4), (9, 9, 2), (10, 9, 4), (10, 33, 2)])
def test_the_design_says_where_block_ram_begins(depth: int, deepest: int, first: int) -> None:
    """To the law and to the circuit."""
    design = with_deepest(alone(Add(row(30), row(30)), (1, 1), depth), deepest)
    assert solve(design).sinks["node.o"][0] == first
    assert_proven(prove(design))


@pytest.mark.parametrize(
    ("depth", "expected"), [(1, [0, 3, 6, 9]), (2, [0, 1, 3, 4]), (3, [0, 1, 2, 3]), (4, [0, 1, 2, 3])]
)
def test_a_place_is_free_again_the_cycle_after_the_pop(depth: int, expected: list[int]) -> None:
    """A token fired at 0 is popped at 2: L + V + 1 = 3 places are needed for one token per cycle."""
    assert fires(solve(alone(Add(row(4), row(4)), (1, 1), depth)), "add") == expected


def test_a_join_waits_for_the_later_operand() -> None:
    design = alone(Add(row(3), row(3)), (1, 1), 8)
    offers = {"a": np.array([0, 7, 8]), "b": np.array([2, 3, 20])}
    assert fires(solve(design, offers=offers), "add") == [2, 7, 20]


def test_a_sink_takes_a_token_in_the_first_cycle_it_is_ready() -> None:
    design = alone(Fork(row(3), 2), (1, 1), 8)
    ready = {"node.o0": np.array([0, 0, 0, 1, 0, 0, 1], dtype=bool)}
    prediction = solve(design, ready=ready)
    assert prediction.sinks["node.o0"].tolist() == [3, 6, 7], "after its trace a sink is always ready"
    assert prediction.sinks["node.o1"].tolist() == [1, 2, 3]


def test_a_fork_waits_for_room_in_every_copy() -> None:
    design = alone(Fork(row(3), 2), (1, 1), 8)
    slow = {"node.o1": np.array([0, 0, 0, 0, 0, 1], dtype=bool)}
    assert fires(solve(design, ready=slow, depths={"node.o0": 8, "node.o1": 1}), "fork") == [0, 6, 8]


def test_a_reader_waits_for_its_beat_and_a_writer_for_room() -> None:
    """Two channels on one lane become one beat of two: the reader needs beats 1 and 3."""
    ample = solve(alone(Gearbox(row(2, 2), capacity=8), (1, 2), 8))
    assert fires(ample, "writer") == [0, 1, 2, 3]
    assert fires(ample, "reader") == [2, 4]
    narrow = solve(alone(Gearbox(row(2, 2), capacity=2), (1, 2), 8))
    assert fires(narrow, "writer") == [0, 1, 3, 4], "beat 2 waits for the release in cycle 2"
    assert fires(narrow, "reader") == [2, 5]


def test_a_window_waits_for_the_last_pixel_it_touches() -> None:
    """Kernel 1 × 2 over three pixels and one of padding: windows need pixels 1, 2 and 2."""
    design = alone(Window(row(3), (1, 2), pads=(0, 0, 0, 1), capacity=8), (1, 2), 8)
    prediction = solve(design, 2)
    assert fires(prediction, "writer") == [0, 1, 2, 3, 4, 5]
    assert fires(prediction, "reader") == [2, 3, 4, 5, 6, 7]
    assert prediction.sinks["node.o"].tolist() == [9, 10, 11, 12, 13, 14], "L = 6, V = 1"
    assert prediction.interval(2) == 3 and prediction.latency() == 12


def test_padding_of_a_frame_that_never_comes_fires() -> None:
    """The first window of every frame lies in the padding; it waits for nothing."""
    design = alone(Window(row(2), (1, 1), pads=(0, 1, 0, 0)), (1, 1), 8)
    prediction = solve(design, 2, offers={"i": np.array([10, 10])})
    assert fires(prediction, "reader") == [0, 11, 12, 13]
    assert [wait.whom for wait in prediction.waits if wait.name == ("node", "reader")] == [(("node", "writer"),)]
    assert prediction.circle() == (), "an ended source is no deadlock"


def test_a_matmul_pops_in_its_first_group_and_pushes_with_its_last_beat() -> None:
    """4 → 3 on 2 × 2 lanes: two groups of two beats; L = 11."""
    design = alone(MatMul(row(2, 4), np.ones((3, 4), dtype=np.int64)), (2, 2), 8)
    prediction = solve(design, offers={"i": np.array([0, 5, 5, 5])})
    assert fires(prediction, "matmul") == [0, 5, 6, 7, 8, 9, 10, 11]
    assert prediction.sinks["node.o"].tolist() == [17, 19, 21, 23]


def test_a_bubble_may_come_in_every_other_frame_only() -> None:
    """Two frames of one token in two places, three cycles a round: the gaps are 1, 2, 1, 2, ..."""
    prediction = solve(alone(Add(row(1), row(1)), (1, 1), 2), 9)
    assert [prediction.interval(frames) for frames in (5, 6, 7, 8)] == [2, 1, 2, 1]
    assert prediction.cycles_per_frame(8) == 1.5


# ---- full rate ----------------------------------------------------------------------------------------------------

FRAMES = 24


def cycles_per_frame(design: Design) -> float:
    return solve(design, FRAMES).cycles_per_frame(FRAMES)


def most_pushes(operator: Operator, folding: Folding, cycles: int) -> int:
    """In any so many consecutive cycles, while every cycle fires."""
    engine = operator.schedule(folding).engines[-1]
    pushes = np.asarray(*engine.pushes.values())  # type: ignore[call-overload]
    repeats = cycles // engine.operations + 2
    times = (np.arange(repeats)[:, None] * engine.operations + pushes[None, :]).reshape(-1)
    return int(np.max(np.searchsorted(times, times + cycles) - np.arange(len(times))))


@settings(max_examples=200)
@given(st.one_of(matmuls(), gearboxes(), windows(), pools()))
def test_full_rate_needs_room_for_the_pushes_of_a_round_trip(drawn: tuple[Operator, Folding]) -> None:
    """depth ≥ the most pushes in L + V + 1 consecutive cycles: there is no bubble; one less, and there is."""
    operator, folding = drawn
    if not isinstance(operator, MatMul):
        operator = replace(operator, capacity=None)  # type: ignore[type-var]
    schedule = operator.schedule(folding)
    assume(schedule.interval <= MOST_OPERATIONS)
    latency = schedule.engines[-1].latency
    depth = next(d for d in range(1, 99) if d >= most_pushes(operator, folding, latency + visible_after(d) + 1))
    assert cycles_per_frame(alone(operator, folding, depth)) == schedule.interval
    if depth > 1 and schedule.engines[-1].operations == schedule.interval:
        assert cycles_per_frame(alone(operator, folding, depth - 1)) > schedule.interval


@settings(max_examples=200)
@given(st.one_of(gearboxes(), windows(), pools()))
def test_buffers_are_as_large_as_full_rate_asks_for(drawn: tuple[Operator, Folding]) -> None:
    """The default capacity: neither engine of a core makes the busier one wait."""
    operator, folding = drawn
    assume(operator.cycles(folding) <= MOST_OPERATIONS)
    operator = replace(operator, capacity=None)  # type: ignore[type-var]
    assert cycles_per_frame(alone(operator, folding, 64)) == operator.cycles(folding)


@settings(max_examples=100)
@given(st.integers(3, 7), st.integers(3, 9), st.integers(1, 8), st.data())
def test_two_windows_in_a_row_keep_the_rate_of_the_busier(
    size: int, width: int, channels: int, data: st.DataObject
) -> None:
    """A line of real layers, FIFOs ample: the network is as fast as its busiest engine."""
    image = Tensor((size, width, channels), Int(4))
    stride = data.draw(st.sampled_from([1, 2]))
    first = Window(image, (3, 3), (stride, stride), (1, 1, 1, 1))
    lanes = data.draw(st.integers(1, 9 * channels))
    matmul = MatMul(first.results()[0], np.ones((channels, 9 * channels), dtype=np.int64))
    rows = data.draw(st.integers(1, channels))
    second = Pool(matmul.results()[0], "max", (2, 2), data.draw(st.sampled_from([(1, 1), (2, 2)])), (0, 0, 1, 1))
    sketch = Sketch()
    x = sketch.input("x", image)
    nodes: list[tuple[Operator, tuple[int, int]]] = [
        (first, (data.draw(st.integers(1, channels)), lanes)),
        (matmul, (lanes, rows)),
        (second, (rows, data.draw(st.integers(1, channels)))),
    ]
    for k, (operator, folding) in enumerate(nodes):
        (x,) = sketch.add(f"node{k}", operator, [x], folding, 4096)
    busiest = max(operator.cycles(folded(operator, folding)) for operator, folding in nodes)
    assert cycles_per_frame(sketch.design()) == busiest


# ---- liveness -----------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.one_of(gearboxes(), windows(), pools()))
def test_the_live_capacity_is_the_least_that_does_not_deadlock(drawn: tuple[Operator, Folding]) -> None:
    operator, folding = drawn
    if isinstance(operator, Gearbox):
        live = operator.live_capacity(folding)
    else:
        assert isinstance(operator, Window | Pool)
        live = operator.grouped(folding).live_capacity(operator.beats_per_pixel(folding))
    assert not solve(alone(replace(operator, capacity=live), folding, 4), 3).waits
    if live > 1:
        deadlock = solve(alone(replace(operator, capacity=live - 1), folding, 4), 3)
        assert [wait.name for wait in deadlock.circle()] == [("node", "writer"), ("node", "reader")]


def test_a_short_branch_must_hold_what_the_long_one_keeps() -> None:
    assert not solve(unequal_branches(4), 3).waits
    deadlock = solve(unequal_branches(3), 3)
    assert fires(deadlock, "fork", "fork") == [0, 1, 2]
    assert [str(wait) for wait in deadlock.circle()] == [
        "fork.fork waits in operation 3 for room on fork.o1",
        "sum.add waits in operation 0 for a token on narrow.o",
        "narrow.gearbox waits in operation 0 for a token on widen.o",
        "widen.gearbox waits in operation 3 for a token on fork.o0",
    ]


def test_depths_may_be_tried_without_another_design() -> None:
    design = unequal_branches(3)
    depths = {tensor: size.depth for tensor, size in design.fifos.items()}
    assert not solve(design, 3, depths=depths | {"fork.o1": 4}).waits
    deeper = replace(design, fifos=dict(design.fifos) | {"fork.o1": FifoSize(4, 1, 1)})
    assert not solve(deeper, 3).waits


@needs_compiler
@settings(max_examples=60)
@given(st.one_of(chains(5, 300), residuals(5, 300)), st.integers(0, 999))
def test_the_native_solver_gives_the_least_solution(design: Design, seed: int) -> None:
    """Equal to the definition in Python, event by event, deadlocks and their reasons included."""
    assert_solvers_agree(design, seed, design.interval)


def test_unequal_numbers_of_tokens_are_a_fault_of_the_schedules() -> None:
    x = row(2, 4)
    sketch = Sketch()
    (y,) = sketch.add("a", Fork(x, 1), [sketch.input("x", x)], (2, 2), 4)
    sketch.add("b", Fork(x, 1), [y], (4, 4), 4)
    with pytest.raises(ValueError, match=r"edge a\.o0: 4 tokens are pushed and 2 popped"):
        solve(sketch.design())
