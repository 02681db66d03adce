"""Engines that need their own earlier results, and engines that do something once, before their first frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.messages.invariants import InvariantError
from onnx_hw.ops.add import Add
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.schedule import Dependency, Engine
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.size_fifos import size_fifos
from onnx_hw.timing.frame_times import Frames
from onnx_hw.timing.prediction import predict
from onnx_hw_rtl.streams import engine, feedback
from support.design_bench import assert_proven, prove
from support.hand_built_designs import Sketch, alone
from support.random_cases import few, many
from support.recurrence import BITS, Recurrence
from support.solvers import assert_solvers_agree, needs_compiler


@st.composite
def recurrences(draw: st.DrawFn) -> Recurrence:
    """Results that come in time, and results that are waited for; a table or none."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5)))
    return Recurrence(shape, draw(st.integers(2, 7)), draw(st.integers(0, 5)))


def beside_its_input(operator: Recurrence, *depths: int) -> Design:
    """``x + recurrence(x)``."""
    x = Tensor(operator.shape, Int(BITS))
    sketch = Sketch()
    there, around = sketch.add("fork", Fork(x), [sketch.input("x", x)], (1, 1), *depths[:2])
    (h,) = sketch.add("recurrence", operator, [there], (1, 1), depths[2])
    sketch.add("sum", Add(operator.results()[0], x), [h, around], (1, 1), depths[3])
    return sketch.design()


@few
@given(recurrences(), st.integers(1, 9), st.integers(0, 999), st.sampled_from([0, 2, 17]))
def test_values_and_firings(operator: Recurrence, depth: int, seed: int, false_start: int) -> None:
    assert_proven(prove(alone(operator, (1, 1), depth), frames=4, seed=seed, false_start=false_start))


@settings(few, max_examples=5)
@given(recurrences(), st.tuples(*[st.integers(1, 9)] * 4), st.integers(0, 999))
def test_in_a_network(operator: Recurrence, depths: tuple[int, ...], seed: int) -> None:
    assert_proven(prove(beside_its_input(operator, *depths), frames=3, seed=seed), live=False)


def test_three_operations_before_the_first_frame() -> None:
    """They fire in the first three cycles, whoever stalls; then the frames, end to end."""
    design = alone(Recurrence((1, 2, 3), delay=5, once=3), (1, 1), 20)
    prediction = predict(design, 2, offers={"i": np.zeros(12, dtype=np.int64)})
    assert prediction.fires["node", "step"].tolist() == [0, 1, 2, *(3, 4, 5), *(8, 9, 10), *(11, 12, 13), *(16, 17, 18)]
    for seed in range(4):
        run = prove(design, frames=3, seed=seed)
        assert_proven(run)
        assert run.firings_compared == 3 + 3 * 6 + 3 * 6, "once, then three frames, and those that leave"


@many
@given(recurrences(), st.integers(0, 3))
def test_cycles_of_a_frame(operator: Recurrence, more: int) -> None:
    """An engine alone, its output ample, takes as long as it says; the FIFOs are sized for that."""
    busy = operator.cycles(operator.narrowest)
    _, _, channels = operator.shape
    pixels = operator.shape[0] * operator.shape[1]
    assert busy == (pixels - 1) * max(operator.delay, channels) + channels
    design = alone(operator, (1, 1), 99)
    offers = {"i": np.zeros(8 * pixels * channels, dtype=np.int64)}
    assert predict(design, 8, offers=offers).cycles_per_frame(8) == busy


@few
@given(recurrences())
def test_fifos_for_them(operator: Recurrence) -> None:
    sized = size_fifos(beside_its_input(operator, 1, 1, 1, 1))
    frames = Frames(sized).times(8, sized.interval)
    assert frames.live and frames.elapsed(4, 8) == 4 * sized.interval


@needs_compiler
@many
@given(recurrences(), st.tuples(*[st.integers(1, 9)] * 4), st.integers(0, 999), st.sampled_from([None, -1, 0, 5]))
def test_all_solvers_agree(operator: Recurrence, depths: tuple[int, ...], seed: int, slack: int | None) -> None:
    design = beside_its_input(operator, *depths)
    assert_solvers_agree(design, seed, 0 if slack is None else max(1, design.interval + slack))


# ---- faults -------------------------------------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], None]


def engines(**changed: Any) -> Patch:
    """The schedule states something else."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = Recurrence.schedule

        def schedule(*arguments: Any) -> Any:
            found = original(*arguments)
            return replace(found, engines=(replace(found.engines[0], **changed),))

        patch.setattr(Recurrence, "schedule", schedule)

    return apply


def law_delays(by: int) -> Patch:
    """D off by one in the law."""
    original = Recurrence((1, 5, 2), 5).schedule(Recurrence.folding_type(1)).engines[0].dependencies[0]
    return engines(dependencies=(replace(original, delay=original.delay + by),))


def circuit_delays(by: int) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        original = feedback.FeedbackCounter.__init__
        patch.setattr(feedback.FeedbackCounter, "__init__", lambda self, delay, span: original(self, delay + by, span))

    return apply


def nobody_waits(patch: pytest.MonkeyPatch) -> None:
    """The circuit ignores that a result has not come."""
    patch.setattr(engine.Engine, "holds", lambda self, which, condition: Const(1, 1))


def again_in_each_frame(patch: pytest.MonkeyPatch) -> None:
    """What happens once happens at the end of every frame, too."""
    original = engine.Engine.__init__

    def init(self: Any, m: Any, *given: Any, **arguments: Any) -> None:
        original(self, m, *given, **arguments)
        ends = self.decode(self.is_last(*self.loops), 1, "ends")
        with m.If(self.works & ends):
            m.d.sync += [self.prepares.eq(1), self.prepared.eq(0)]

    patch.setattr(engine.Engine, "__init__", init)


def never(patch: pytest.MonkeyPatch) -> None:
    """The circuit begins with its frames."""
    original = engine.Engine.__init__

    def init(self: Any, *given: Any, **arguments: Any) -> None:
        original(self, *given, **{**arguments, "once": 0})

    patch.setattr(engine.Engine, "__init__", init)


FAULTS = {
    "the law says D + 1": law_delays(1),
    "the law says D - 1": law_delays(-1),
    "the law ignores them": engines(dependencies=()),
    "the circuit waits longer": circuit_delays(1),
    "the circuit waits less": circuit_delays(-1),
    "the circuit ignores them": nobody_waits,
    "again in each frame": again_in_each_frame,
    "never": never,
    "the law says one more": engines(once=4),
    "the law says one less": engines(once=2),
    "the law forgets what happens once": engines(once=0),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("stalls", [True, False])
def test_faults_are_caught(name: str, stalls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    design = alone(Recurrence((1, 5, 2), delay=5, once=3), (1, 1), 9)
    assert_proven(prove(design, stalls=stalls))
    FAULTS[name](monkeypatch)
    run = prove(design, stalls=stalls)
    assert run.firing_mismatches


# ---- what must hold for a schedule ----------------------------------------------------------------------------------


def broken() -> Iterator[tuple[Engine, str]]:
    good = Recurrence((1, 5, 2), 5, 3).schedule(Recurrence.folding_type(1)).engines[0]
    (own,) = good.dependencies

    def other(**changed: Any) -> Engine:
        return replace(good, dependencies=(replace(own, **changed),))

    yield replace(good, once=-1), "0 or more of them once"
    yield other(delay=0), "a result must take 1 cycle or more, not 0"
    yield other(needs=own.waits), "an operation must need the result of an earlier one"
    yield other(needs=AffineSequence.every(7)), "8 operations wait, so that many must be needed, not 7"
    yield (
        other(waits=AffineSequence.every(8, first=3)),
        "those that wait: operations must be numbers from 0 to 9 in order",
    )
    yield other(needs=AffineSequence.every(8, first=-1)), "those that are needed: operations must be numbers"


@pytest.mark.parametrize(("made", "told"), list(broken()))
def test_broken_schedules_are_told(made: Engine, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engines(**{name: getattr(made, name) for name in ("once", "dependencies")})(monkeypatch)
    with pytest.raises(InvariantError, match=told):
        alone(Recurrence((1, 5, 2), 5, 3), (1, 1), 3).schedules()


def test_several_dependencies_of_one_engine() -> None:
    """Operation 3 needs operation 1 after 7 cycles, operation 5 needs 3 after 4 and 0 after 9."""
    numbers = {n: AffineSequence.every(1, first=n) for n in range(6)}
    needs = ((3, 1, 7), (5, 3, 4), (5, 0, 9))
    own = tuple(Dependency(numbers[waits], numbers[needed], delay) for waits, needed, delay in needs)
    assert Engine("e", 6, 0, dependencies=own).cycles == 13, "0 1 2 8 9 12"
    assert Engine("e", 6, 0).cycles == 6
