"""Frames leave when the definition of the firing law says so, however few of their operations are looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Delays, Design
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.tensor import Tensor
from onnx_hw.ops.window import Window
from onnx_hw.timing import frame_times, row_solver
from onnx_hw.timing.frame_times import Frames
from onnx_hw.timing.prediction import Events
from onnx_hw.timing.row_solver import ALWAYS
from support.cpu_time_limit import own_seconds
from support.hand_built_designs import Sketch
from support.random_designs import chains, residuals

FRAMES = 8
TRIED = 60


def defined(design: Design, interval: int, depths: dict[str, int]) -> list[dict[tuple[str, str], int]]:
    """Per frame that ends, the cycle of each sink's last token."""
    offers = {
        e.tensor: frame_times.paced_offers(e.order, interval, FRAMES) for e in design.edges() if e.producer is None
    }
    ends = []
    for solved, times in enumerate(Events(design).solutions(FRAMES, offers=offers, depths=depths), start=1):
        if any(time.fired < solved * track.operations for track, time in times.items()):
            break
        ends.append({t.name: int(time.cycles[-1]) for t, time in times.items() if t.name[0] == "sink"})
    return ends


def assert_as_defined(design: Design, interval: int, depths: dict[str, int]) -> list[int]:
    """Every frame, and those that are foretold; which were."""
    expected, foretold, told = defined(design, interval, depths), [], []
    for k, end in enumerate(Frames(design).solutions(FRAMES, interval, depths)):
        assert end.cycles == expected[k], k
        for step in range(1, min(end.again, FRAMES - 1 - k) + 1):
            for sink, cycle in end.cycles.items():
                assert expected[k + step][sink] == cycle + step * (cycle - expected[k - 1][sink])
        foretold.append(end.again)
        told.append(end.cycles)
    assert len(told) == len(expected)
    times = Frames(design).times(FRAMES, interval, depths)
    assert times.live == (len(expected) == FRAMES)
    assert times.cycles == tuple(tuple(end[sink] for end in expected) for sink in expected[0]) if expected else True
    return foretold


@pytest.fixture(autouse=True)
def _compiled() -> None:
    if not row_solver.available():
        pytest.skip("no C++ compiler for the native solver")


@pytest.mark.parametrize("kind", [chains, residuals])
def test_drawn_networks(kind) -> None:  # type: ignore[no-untyped-def]
    """Fed at once or evenly, at the interval or near it, in FIFOs that hold little or much."""
    seen: Counter[str] = Counter()

    @settings(max_examples=TRIED, derandomize=True, deadline=None)
    @given(kind(6, 400), st.sampled_from([None, -3, 0, 1, 7]), st.sampled_from([0, 0, 5, 30, 400]))
    def every_design(design: Design, slack: int | None, more: int) -> None:
        interval = 0 if slack is None else max(1, design.interval + slack)
        depths = {tensor: size.depth + more for tensor, size in design.fifos.items()}
        foretold = assert_as_defined(design, interval, depths)
        seen["always"] += ALWAYS in foretold
        seen["stops"] += len(foretold) < FRAMES
        seen["some"] += any(0 < again < ALWAYS for again in foretold)

    every_design()
    assert seen["always"] > TRIED // 4, seen
    assert kind is chains or seen["stops"], seen


def tall(rows: int, pads: int, strides: tuple[int, int]) -> Design:
    """A skip beside a window, then a pool: many rows, and more rows than come out where there are no pads."""
    sketch = Sketch()
    image = Tensor((rows, 5, 2), Int(4))
    x = sketch.input("x", image)
    (x,) = sketch.add("first", Window(image, (3, 3), pads=(pads, pads, pads, pads)), [x], (1, 7), 5)
    _, far = sketch.add("fork", Fork(sketch.tensors[x], 2), [x], (7, 7), 90, 3)
    (far,) = sketch.add("pool", Pool(sketch.tensors[far], "max", (3, 2), strides, (1, 0, 0, 1)), [far], (7, 4), 9)
    return sketch.design()


@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (3, 2)])
@pytest.mark.parametrize("slack", [None, 0, 1, 2, 50])
def test_images_of_many_rows(pads: int, strides: tuple[int, int], slack: int | None) -> None:
    for rows in (30, 67):
        design = tall(rows, pads, strides)
        depths = {tensor: size.depth for tensor, size in design.fifos.items()}
        for more in (0, 300):
            interval = 0 if slack is None else design.interval + slack
            assert_as_defined(design, interval, {tensor: depth + more for tensor, depth in depths.items()})


def line(rows: int, latency: int, pads: int = 0) -> Design:
    """Four cores in a row: ``near``, far away ``b``, ``c`` beside it, and far away ``end``; ``c`` adds rows of pads."""
    sketch = Sketch()
    x = sketch.input("x", Tensor((rows, 5, 1), Int(8)))
    for name in ("near", "b", "c", "end"):
        lanes = sketch.tensors[x].channels
        operator: Fork | Window = Fork(sketch.tensors[x], 1)
        folding = (lanes, lanes)
        if pads and name == "c":
            operator, folding = Window(sketch.tensors[x], (pads + 1, 1), pads=(pads, 0, pads, 0)), (1, pads + 1)
        (x,) = sketch.add(name, operator, [x], folding, 1)
    return replace(sketch.design(), delays=dict.fromkeys(("near.o0", "c.o" if pads else "c.o0"), Delays(latency, 1)))


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.data(), st.integers(60, 900), st.integers(3, 40), st.sampled_from([0, 0, 3, 40]))
def test_bubbles_that_come_once_in_many_rows(data: st.DataObject, rows: int, latency: int, pads: int) -> None:
    """One comes for as many tokens as a FIFO on a long way holds; the one between fills up, or runs dry."""
    design = line(rows, latency, pads)
    first, second, between = (data.draw(st.integers(1, most)) for most in (latency, 40, 900))
    depths = {"near.o0": first, "b.o0": between, "c.o0": second, "c.o": second, "end.o0": 3}
    slowest = -(-design.interval * (latency + 1) // min(first, second, latency + 1))
    assert_as_defined(
        design, data.draw(st.sampled_from([0, design.interval, slowest - 1, slowest, slowest + 3])), depths
    )


def test_a_repetition_of_any_length_is_found() -> None:
    """A frame of a million rows, and hundreds of them until the bubbles come again at the same places."""
    for depth, latency in ((11, 12), (59, 61), (509, 521)):
        frames = Frames(line(1_000_000, latency))
        with own_seconds() as seconds:
            found = frames.times(8, 0, {"near.o0": depth, "b.o0": 9, "c.o0": 2 * latency, "end.o0": 5})
            assert found.live and seconds() < 0.5
        ((*_, before, last),) = found.cycles
        assert abs((last - before) * depth - 5_000_000 * (latency + 1)) <= (latency + 1) * depth


def test_an_even_pace() -> None:
    """One token every so many cycles, but for what is left over in a round."""
    for shape, interval in (((5, 4, 3), 77), ((5, 4, 3), 60), ((1, 12, 1), 5000), ((64, 3, 2), 16385)):
        order = Fork(Tensor(shape, Int(8)), 1).input_orders(Fork.folding_type(1))[0]
        offers, rounds = frame_times.paced_offers(order, interval, 3), frame_times.rounds_of(order, interval)
        even = np.arange(3 * order.beats) * interval // order.beats
        assert (np.diff(offers) >= 0).all() and offers[order.beats] == interval
        assert (offers <= even).all() and (even - offers <= interval // frame_times.MIN_ROUND_CYCLES + 1).all()
        assert interval % rounds or (offers == even).all()
    assert rounds == 64, "they are short, but not too short"
