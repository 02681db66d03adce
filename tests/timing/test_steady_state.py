"""A solution that repeats itself goes on doing so, bounds with lags of several frames included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.add import Add
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.tensor import Tensor
from onnx_hw.timing import native_solver
from onnx_hw.timing.prediction import Events, predict
from onnx_hw.timing.solver import Precedence, Times, Track
from onnx_hw.timing.steady_state import period, sustains
from support.hand_built_designs import Sketch, alone
from support.random_designs import chains, residuals

FRAMES = 12


def paced(design: Design, interval: int, frames: int = FRAMES) -> dict[str, np.ndarray]:
    return {e.tensor: np.arange(frames * e.beats) * interval // e.beats for e in design.edges() if e.producer is None}


def interval_of(design: Design) -> int:
    return max(node.operator.cycles(design.folding(node)) for node in design.network.nodes)


more = st.sampled_from([0, 20, 60])
"""Places added to every edge; residual networks drawn at random would mostly come to a stop."""


def deeper(design: Design, more: int) -> dict[str, int]:
    return {tensor: size.depth + more for tensor, size in design.fifos.items()}


@pytest.mark.parametrize("kind", [chains, residuals])
def test_what_repeats_itself_does_so_in_every_later_frame(kind) -> None:  # type: ignore[no-untyped-def]
    """At every number of frames for which a period is told, against the solution for all of them."""
    told: Counter[int] = Counter()

    @settings(max_examples=60, derandomize=True, deadline=None)
    @given(kind(4, 80), st.integers(-3, 9), more)
    def every_design(design: Design, slack: int, more: int) -> None:
        interval = max(1, interval_of(design) + slack)
        offers, depths = paced(design, interval), deeper(design, more)
        fires = predict(design, FRAMES, offers=offers, depths=depths).fires
        solutions = Events(design).solutions(FRAMES, offers=offers, depths=depths)
        for solved, times in enumerate(solutions, start=1):
            if any(time.fired < solved * track.operations for track, time in times.items()):
                break
            cycles = period(times, solved, FRAMES)
            if cycles is None:
                continue
            told[solved] += 1
            for (node, engine), every in fires.items():
                operations = len(every) // FRAMES
                frames = every.reshape(FRAMES, operations)[solved - 1 :]
                assert (np.diff(frames, axis=0) == cycles).all(), (node, engine)

    every_design()
    assert sum(told[solved] for solved in (2, 3, 4)) > 20, "otherwise nothing is gained"


@pytest.mark.parametrize("kind", [chains, residuals])
def test_what_is_sustained_is_so_in_the_long_run(kind) -> None:  # type: ignore[no-untyped-def]
    seen: Counter[bool] = Counter()

    @settings(max_examples=80, derandomize=True, deadline=None)
    @given(kind(4, 80), st.integers(-1, 2), more)
    def every_design(design: Design, slack: int, more: int) -> None:
        interval, depths = max(1, interval_of(design) + slack), deeper(design, more)
        answer = Events(design).sustains(interval, 4, 8, offers=paced(design, interval, 8), depths=depths)
        prediction = predict(design, 40, offers=paced(design, interval, 40), depths=depths)
        assert answer == (not prediction.waits and prediction.cycles_per_frame(40) <= interval)
        seen[answer] += 1

    every_design()
    assert min(seen[True], seen[False]) > 10


FRAME = np.arange(30).reshape(10, 3)
"""Ten frames of three operations without a pause."""


def engine_and_sink(lag: int) -> tuple[Track, Track]:
    """Three tokens a frame, and places for ``lag`` of them."""
    track, sink = Track(("node", "engine"), 3), Track(("sink", "o"), 3)
    sink.bounds.append(Precedence(np.arange(3), track, np.arange(3), "a token", delay=2))
    track.bounds.append(Precedence(np.arange(3), sink, np.arange(3), "room", delay=1, lag=lag))
    return track, sink


def times(solved: int, cycles: dict[Track, np.ndarray]) -> dict[Track, Times]:
    return {t: Times(t, np.arange(3), c[:solved].reshape(-1), 3 * solved) for t, c in cycles.items()}


def test_a_buffer_of_several_frames_fills_before_it_holds_anybody_up() -> None:
    """Nine places for frames of three tokens, which arrive three frames late: the tenth finds none."""
    track, sink = engine_and_sink(lag=9)
    assert period(times(2, {track: FRAME, sink: FRAME + 2}), 2, 10) == 3
    assert period(times(2, {track: FRAME, sink: FRAME + 11}), 2, 10) is None, "the tenth token will have no place"
    assert period(times(2, {track: FRAME, sink: FRAME + 11}), 2, 3) == 3, "there is none among nine"
    late = FRAME + 5 * np.arange(10)[:, None]
    assert period(times(3, {track: FRAME, sink: late}), 3, 10) is None, "two periods"


def test_what_a_token_waits_for_two_frames_back_must_repeat_itself_too() -> None:
    """Six places: the third frame waits for the first one to leave, the fourth for the second, which left late."""
    track, sink = engine_and_sink(lag=6)
    late = FRAME + np.array([2] + 9 * [12])[:, None]
    assert period(times(3, {track: FRAME, sink: late}), 3, 10) is None
    assert period(times(4, {track: FRAME, sink: late}), 4, 10) == 3, "the first frame does not matter any more"


def test_frames_that_come_late_again_and_again_are_not_awaited() -> None:
    track, sink = engine_and_sink(lag=99)
    read = []

    def solutions(late: np.ndarray) -> Iterator[dict[Track, Times]]:
        for solved in range(1, 9):
            read.append(solved)
            yield times(solved, {track: FRAME, sink: late})

    assert not sustains(solutions(FRAME + np.arange(10)[:, None]), [sink], 3, settled=4, frames=8)
    assert read == [1, 2, 3, 4]
    swinging = FRAME + np.array([2, 3] * 5)[:, None]
    assert sustains(solutions(swinging), [sink], 3, settled=4, frames=8), (
        "never late twice in a row, on time on average"
    )
    assert read == [1, 2, 3, 4, *range(1, 9)]


def test_the_definition_and_the_compiled_solver_agree_frame_by_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    if not native_solver.available():
        pytest.skip("no C++ compiler for the native solver")
    sketch = Sketch()
    x = sketch.input("x", Tensor((3, 2, 4), Int(8)))
    (wide,) = sketch.add("widen", Gearbox(sketch.tensors[x]), [x], (1, 3), 8)
    sketch.add("narrow", Gearbox(sketch.tensors[wide]), [wide], (3, 2), 40)
    design = sketch.design()
    offers = paced(design, interval_of(design))
    compiled = Events(design).solutions(FRAMES, offers=offers)
    monkeypatch.setattr(native_solver, "available", lambda: False)
    defined = Events(design).solutions(FRAMES, offers=offers)
    for solved, (one, other) in enumerate(zip(compiled, defined, strict=True), start=1):
        every = [{track.name: time.every.tolist() for track, time in times.items()} for times in (one, other)]
        assert every[0] == every[1]
        assert period(one, solved, FRAMES) == period(other, solved, FRAMES)
    assert period(one, FRAMES, FRAMES) == interval_of(design)


def test_what_stops_or_comes_slowly_sustains_nothing() -> None:
    design = alone(Add(Tensor((1, 3, 1), Int(8)), Tensor((1, 3, 1), Int(8))), (1, 1), 8)
    offers = paced(design, 3, 8)
    assert Events(design).sustains(3, 4, 8, offers=offers)
    assert not Events(design).sustains(3, 4, 8, offers=paced(design, 4, 8)), "no faster than they come"
    assert not Events(design).sustains(3, 4, 8, offers={**offers, "b": offers["b"][:5]})
