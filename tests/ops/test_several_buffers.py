"""A core may have any number of shared buffers: rule 4 holds for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Const
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.messages.invariants import InvariantError
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.schedule import Engine, Schedule, SharedBuffer, faults_of_schedule
from onnx_hw.prove.circuit.stalls import Stall
from onnx_hw.timing import constraints
from onnx_hw_rtl.streams import engine, shared_buffer
from support.design_bench import Bench, assert_proven, prove
from support.hand_built_designs import alone
from support.operator_facts import assert_facts
from support.outer_sum_operator import OuterSum
from support.random_cases import few, many
from support.solvers import assert_solvers_agree, needs_compiler


@st.composite
def outer_sums(draw: st.DrawFn) -> OuterSum:
    """From a capacity that barely lives (all columns are kept to the last row) to more than two frames."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    return OuterSum(rows, columns, (draw(st.integers(1, 2 * rows)), draw(st.integers(columns, 3 * columns))))


@few
@given(outer_sums(), st.integers(1, 6), st.integers(0, 999), st.sampled_from([0, 7]))
def test_values_and_firings(operator: OuterSum, depth: int, seed: int, false_start: int) -> None:
    assert_proven(prove(alone(operator, (1, 1), depth), frames=4, seed=seed, false_start=false_start))


@many
@given(outer_sums())
def test_facts(operator: OuterSum) -> None:
    assert_facts(operator, operator.narrowest)


@needs_compiler
@many
@given(outer_sums(), st.integers(1, 6), st.integers(0, 999))
def test_all_solvers_agree(operator: OuterSum, depth: int, seed: int) -> None:
    design = alone(operator, (1, 1), depth)
    assert_solvers_agree(design, seed, design.interval)


def test_a_buffer_that_is_too_small_is_named() -> None:
    run = prove(alone(OuterSum(2, 3, (2, 2)), (1, 1), 4))
    assert_proven(run, live=False)
    assert set(run.deadlock) == {
        "node.b waits in operation 2 for node.reader to free the columns",
        "node.reader waits in operation 2 for node.b to write into the columns",
    }


# ---- faults -------------------------------------------------------------------------------------------------------


def engines_forget(patch: pytest.MonkeyPatch) -> None:
    """An engine looks at the first of its buffers alone."""
    patch.setattr(engine.Engine, "holds", lambda self, which, condition: condition if which == 0 else Const(1, 1))


def law_forgets(patch: pytest.MonkeyPatch) -> None:
    original = OuterSum.schedule
    patch.setattr(OuterSum, "schedule", lambda *a: replace(original(*a), buffers=original(*a).buffers[:1]))


def second_has_one_more(patch: pytest.MonkeyPatch) -> None:
    original = shared_buffer.SharedBuffer.__init__
    made: list[object] = []

    def init(self: Any, capacity: int, *rest: Any) -> None:
        made.append(self)
        original(self, capacity + (len(made) % 2 == 0), *rest)

    patch.setattr(shared_buffer.SharedBuffer, "__init__", init)


@pytest.mark.parametrize("fault", [engines_forget, law_forgets, second_has_one_more])
def test_faults_are_caught(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    design = alone(OuterSum(3, 4, (2, 5)), (1, 1), 3)
    assert_proven(prove(design))
    fault(monkeypatch)
    bench = Bench(design)
    late_rows, late_columns = (
        Stall("late", {"a": a * np.arange(9), "b": b * np.arange(12)}, {}) for a, b in ((9, 0), (0, 5))
    )
    runs = [bench.prove(stall, frames=3) for stall in (late_rows, late_columns)]
    assert any(run.mismatches or run.firing_mismatches for run in runs)


def test_delays_are_those_of_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    for delay in (0, 2):
        monkeypatch.setattr(constraints, "BUFFER_DELAY", delay)
        assert prove(alone(OuterSum(3, 4, (2, 5)), (1, 1), 3)).firing_mismatches


# ---- what must hold for a schedule ----------------------------------------------------------------------------------

TOKENS = {"a": 3, "b": 4}


def good() -> Schedule:
    return OuterSum(3, 4, (2, 5)).schedule(OuterSum.folding_type(1))


def broken() -> Iterator[tuple[Schedule, str]]:
    """Schedules with one fault each, and what is said."""
    schedule = good()
    a, b, reader = schedule.engines
    rows, columns = schedule.buffers

    def engines(*changed: Engine) -> Schedule:
        return replace(schedule, engines=changed)

    def buffers(changed: SharedBuffer) -> Schedule:
        return replace(schedule, buffers=(rows, changed))

    yield engines(a, b), "the port `o` must be pushed by one engine, not 0"
    yield engines(a, replace(b, pops={**b.pops, **a.pops}), reader), "`a` must be popped by one engine, not 2"
    yield engines(a, b, replace(reader, pops={"c": AffineSequence.every(1)})), "there is no such port"
    yield (
        engines(a, replace(b, pops={"b": AffineSequence.every(3)}), reader),
        "4 tokens of `b` must be popped in a frame",
    )
    yield (
        engines(a, replace(b, pops={"b": AffineSequence.every(4, first=1)}), reader),
        "`b`, `b`: operations must be numbers",
    )
    yield (
        engines(a, replace(b, pops={"b": AffineSequence.every(4, step=0)}), reader),
        "`b`, `b`: operations must be numbers",
    )
    yield engines(a, b, replace(reader, latency=-1)), "`reader` must have"
    yield engines(a, b, replace(reader, operations=0)), "`reader` must have"
    yield engines(a, replace(b, name="a"), reader), "engines must have names of their own"
    yield buffers(replace(columns, name=rows.name)), "shared buffers must have names of their own"
    yield buffers(replace(columns, writer="c")), "the columns: it must lie between two engines, not c and reader"
    yield buffers(replace(columns, writer="reader")), "it must lie between two engines"
    yield buffers(replace(columns, capacity=0)), "it must hold 1 beat or more, not 0"
    yield (
        buffers(replace(columns, waits=AffineSequence.every(5))),
        "5 operations wait, so that many beats must be needed",
    )
    yield (
        buffers(replace(columns, needs=AffineSequence.every(4, first=2))),
        "the beats that are needed: operations must be",
    )
    yield buffers(replace(columns, needs=AffineSequence.rows([2, 1, 3, 0], [0]))), "in order"
    yield buffers(replace(columns, waits=AffineSequence.every(4, first=9))), "those that wait: operations must be"
    yield (
        buffers(replace(columns, releases=AffineSequence.every(3))),
        "all 4 beats of a frame must be given back, not 3",
    )
    yield buffers(replace(columns, releases=AffineSequence.rows([4, 5, 3, 6], [0]))), "those that give back"


@pytest.mark.parametrize(("schedule", "told"), list(broken()))
def test_broken_schedules_are_told(schedule: Schedule, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not list(faults_of_schedule(good(), TOKENS, {"o": 12}))
    faults = list(faults_of_schedule(schedule, TOKENS, {"o": 12}))
    assert any(told in fault for fault in faults), faults
    monkeypatch.setattr(OuterSum, "schedule", lambda self, folding: schedule)
    with pytest.raises(InvariantError, match="OuterSum made a broken schedule: node `node`: "):
        alone(OuterSum(3, 4, (2, 5)), (1, 1), 3).schedules()


def test_a_buffer_may_give_back_several_beats_at_once() -> None:
    assert AffineSequence.repeated(np.array([3, 9]), np.array([2, 5])).rises(0)
    assert not AffineSequence.repeated(np.array([3, 9]), np.array([2, 5])).rises(1)
    assert AffineSequence.rows([0, 10, 20, 35], [1, 2]).ends == (1, 37)
