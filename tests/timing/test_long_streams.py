"""Streams whose ends are no neighbours: a delay and a credit return of their own, in the law and in the circuit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Delays, Design, FifoSize
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.add import Add
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.size_fifos import size_fifos
from onnx_hw.timing.prediction import predict
from onnx_hw_rtl.streams.core import Core
from onnx_hw_rtl.streams.outbox import Outbox
from support.design_bench import assert_proven, no_stall, prove
from support.hand_built_designs import Sketch, alone
from support.random_cases import few
from support.random_designs import chains, residuals
from support.solvers import assert_solvers_agree, needs_compiler

FAR = Delays(visible_after=20, credit_return=15)


def row(pixels: int, channels: int = 1) -> Tensor:
    return Tensor((1, pixels, channels), Int(8))


@st.composite
def far_apart(draw: st.DrawFn, kind: st.SearchStrategy[Design]) -> Design:
    """A drawn design with one long stream or several, some of them as long as one of 20 and 15 cycles."""
    design = draw(kind)
    drawn = st.builds(Delays, st.integers(3, 40), st.integers(1, 40))
    tensors = [edge.tensor for edge in design.edges() if edge.producer]
    chosen = draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3, unique=True))
    return replace(design, delays={tensor: draw(st.one_of(st.just(FAR), drawn)) for tensor in chosen})


# ---- by hand ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "expected"), [(1, [0, 36, 72]), (2, [0, 1, 36]), (3, [0, 1, 2])])
def test_a_token_travels_20_cycles_and_its_credit_15(depth: int, expected: list[int]) -> None:
    """L = 1: fired at 0, popped at 21, its place reserved again at 36."""
    design = replace(alone(Add(row(3), row(3)), (1, 1), depth), delays={"node.o": FAR})
    prediction = predict(design, 1, offers=no_stall(design, 1).offers)
    assert prediction.fires["node", "add"].tolist() == expected
    assert prediction.sinks["node.o"].tolist() == [cycle + 21 for cycle in expected]


@pytest.mark.parametrize("depth", [1, 2, 33, 34, 60])
def test_in_the_circuit(depth: int) -> None:
    """In every kind of memory, with stalls, without, and after a false start."""
    x = row(12)
    sketch = Sketch()
    a, b = sketch.add("fork", Fork(x), [sketch.input("x", x)], (1, 1), depth, 50)
    sketch.add("sum", Add(x, x), [a, b], (1, 1), depth)
    inner, whole = (
        replace(sketch.design(), delays=dict.fromkeys(t, FAR)) for t in (("fork.o0",), ("fork.o0", "sum.o"))
    )
    assert_proven(prove(inner, frames=2, seed=depth))
    assert_proven(prove(whole, frames=2, stalls=False, false_start=30))


@settings(few, max_examples=4)
@given(far_apart(st.one_of(chains(2, 40), residuals(2, 40))), st.integers(0, 999))
def test_in_drawn_networks(design: Design, seed: int) -> None:
    assert_proven(prove(design, frames=2, seed=seed), live=False)


@needs_compiler
@settings(max_examples=20, deadline=None)
@given(far_apart(st.one_of(chains(4, 200), residuals(4, 200))), st.integers(0, 999), st.sampled_from([None, -1, 0, 5]))
def test_all_solvers_agree(design: Design, seed: int, slack: int | None) -> None:
    assert_solvers_agree(design, seed, 0 if slack is None else max(1, design.interval + slack))


# ---- how deep their FIFOs must be -----------------------------------------------------------------------------------


def line(pixels: int, delays: Delays) -> Design:
    """Two cores of one operation a cycle, far apart."""
    x = row(pixels)
    sketch = Sketch()
    (near,) = sketch.add("near", Fork(x, 1), [sketch.input("x", x)], (1, 1), 1)
    sketch.add("far", Fork(x, 1), [near], (1, 1), 1)
    return replace(sketch.design(), delays={near: delays})


@pytest.mark.parametrize("pixels", [2, 3, 50])
@pytest.mark.parametrize("delays", [FAR, Delays(20, 1), Delays(3, 15), Delays(60, 47)])
def test_full_rate_needs_room_for_a_round_trip(pixels: int, delays: Delays) -> None:
    """Depth V + C (a fork has L = 0), also where whole frames are on their way; one less is not enough."""
    sized = size_fifos(line(pixels, delays))
    round_trip = delays.visible_after + delays.credit_return
    assert sized.fifos["near.o0"].rate_depth == round_trip and sized.fifos["near.o0"].live_depth == 1

    def cycles(depth: int) -> float:
        design = replace(sized, fifos=dict(sized.fifos) | {"near.o0": FifoSize(depth, 1, 1)})
        frames = 200 // pixels + 20
        offers = {"x": np.zeros(frames * pixels, dtype=np.int64)}
        return predict(design, frames, offers=offers).cycles_per_frame(frames)

    assert cycles(sized.fifos["near.o0"].depth) == cycles(round_trip) == pixels
    assert cycles(round_trip - 1) > pixels


def test_the_other_branch_must_hold_what_travels() -> None:
    """``x + x``, one copy by way of another chip: the other copy waits for it."""
    x = row(90)
    sketch = Sketch()
    there, here = sketch.add("fork", Fork(x), [sketch.input("x", x)], (1, 1), 1, 1)
    (back,) = sketch.add("elsewhere", Fork(x, 1), [there], (1, 1), 1)
    sketch.add("sum", Add(x, x), [back, here], (1, 1), 1)
    near = size_fifos(sketch.design())
    far = size_fifos(replace(sketch.design(), delays={there: FAR, back: FAR}))
    assert near.fifos[here].rate_depth == 7, "V of deep FIFOs, twice, and the credit"
    assert far.fifos[here].rate_depth == 41, "the same"
    run = prove(far, stalls=False)
    assert_proven(run)
    assert run.interval_cycles == 90


# ---- faults -------------------------------------------------------------------------------------------------------


def law(visible_after: int = 0, credit_return: int = 0) -> Callable[[pytest.MonkeyPatch], None]:
    """The circuit is built for other delays than those of the law."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = Core.lengthen

        def lengthen(self: Core, output: str, **given: int) -> None:
            added = {"visible_after": visible_after, "credit_return": credit_return}
            original(self, output, **{name: cycles + added[name] for name, cycles in given.items()})

        patch.setattr(Core, "lengthen", lengthen)

    return apply


def nothing_is_far(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Core, "lengthen", lambda self, output, **given: None)


def drops_a_token(patch: pytest.MonkeyPatch) -> None:
    """What is on its way when a credit comes back is lost."""
    original = Outbox.arrival

    def arrival(self: Any, m: Any) -> Any:
        write, word = original(self, m)
        return write & ~(self.o.valid & ~self.o.ready), word

    patch.setattr(Outbox, "arrival", arrival)


@pytest.mark.parametrize("stalls", [True, False])
@pytest.mark.parametrize(
    "fault",
    [law(visible_after=1), law(visible_after=-1), law(credit_return=1), law(credit_return=-1), nothing_is_far],
)
def test_faults_are_caught(fault: Any, stalls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    design = replace(alone(Gearbox(row(9, 4)), (2, 1), 7), delays={"node.o": FAR})
    assert_proven(prove(design, stalls=stalls))
    fault(monkeypatch)
    assert prove(design, stalls=stalls).firing_mismatches


def test_a_lost_token_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    drops_a_token(monkeypatch)
    run = prove(replace(alone(Gearbox(row(9, 4)), (2, 1), 7), delays={"node.o": FAR}))
    assert run.mismatches or run.firing_mismatches


# ---- what must hold -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delays", "told"),
    [
        ({"node.o": Delays(2, 1)}, "a token must take 3 cycles or more"),
        ({"node.o": Delays(3, 0)}, "its credit 1 or more, not 3 and 0"),
        ({"a": FAR}, "delays must be those of a stream that a node makes"),
        ({"elsewhere": FAR}, "there is no such stream"),
    ],
)
def test_delays_that_cannot_be_are_refused(delays: dict[str, Delays], told: str) -> None:
    with pytest.raises(UserError, match=told):
        verify_design(replace(alone(Add(row(3), row(3)), (1, 1), 4), delays=delays))


def test_they_are_shown() -> None:
    design = replace(alone(Add(row(3), row(3)), (1, 1), 4), delays={"node.o": FAR})
    assert repr(design).splitlines()[-1] == "  node.o: 20 cycles to its consumer, credits 15 back"
