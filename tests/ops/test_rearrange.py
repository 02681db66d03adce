"""Rearrange: golden against its definition, the circuit against golden and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Const, Module, Signal
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.ops import rearrange_plan
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.rearrange import Rearrange, RearrangeFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.timing import constraints
from onnx_hw.timing.prediction import predict
from onnx_hw_rtl.cores import rearrange as circuit
from onnx_hw_rtl.streams import engine
from support.design_bench import assert_proven, prove
from support.hand_built_designs import alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault, looks_late
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.rearrangements import BYTES, IMAGE, MAPS, maps, padded, positions, rearranged, rearrangements


def random_rearrange(draw: Random) -> Operator:
    """Transposes, slices, pads, stretches."""
    operand = random_image(draw, (1, 2, 3, 4, 8))
    at = np.arange(operand.size).reshape(operand.shape)
    made = (
        lambda: at.transpose(draw.choice(((2, 0, 1), (1, 0, 2), (0, 2, 1)))),
        lambda: at[1:-1, 1:-1],
        lambda: np.pad(at, ((1, 1), (1, 1), (0, 0)), constant_values=-1),
        lambda: at.repeat(2, axis=0).repeat(2, axis=1),
    )[draw.randrange(4)]()
    return Rearrange(operand, made.shape, made.reshape(-1))


@few
@given(cases(rearrangements()))
def test_any_rearrangement(case: Case) -> None:
    case.check()


@settings(max_examples=15)
@given(cases(rearrangements()))
def test_more_rearrangements(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("lanes", [(4, 4), (1, 3)])
def test_what_it_stands_for(name: str, lanes: tuple[int, int]) -> None:
    shape, x = MAPS[name]
    folding = RearrangeFolding(min(lanes[0], shape[2]), min(lanes[1], x.shape[2]))
    Case(rearranged(shape, x, fill=-77), folding, depth=9, seed=len(name)).check()


@pytest.mark.parametrize("lanes", list(product(range(1, 5), range(1, 4))))
def test_every_folding(lanes: tuple[int, int]) -> None:
    operator = rearranged((2, 3, 4), padded(positions((2, 3, 4))[:, :, 1:], ((1, 0), (0, 1), (0, 0)), "constant"), 5)
    Case(operator, RearrangeFolding(*lanes), depth=3).check()


@many
@given(maps().filter(lambda drawn: drawn[1].max() >= 0), st.integers(-128, 127))
def test_golden_is_the_definition(drawn: tuple[tuple[int, int, int], np.ndarray], fill: int) -> None:
    shape, x = drawn
    frames = np.random.default_rng(x.size).integers(-128, 128, (2, *shape))
    (result,) = rearranged(shape, x, fill).golden(frames)
    assert result.shape == (2, *x.shape)
    for frame, made in zip(frames, result, strict=True):
        for place in product(*map(range, x.shape)):
            expected = frame.reshape(-1)[x[place]] if x[place] >= 0 else fill
            assert made[place] == expected


def test_the_fill_widens_the_range() -> None:
    operand = Tensor((1, 1, 2), BYTES, 3, 5)
    assert Rearrange(operand, (1, 1, 2), np.array([1, 0]), fill=-1).results()[0].range == (3, 5)
    assert Rearrange(operand, (1, 1, 2), np.array([1, -1]), fill=-1).results()[0].range == (-1, 5)
    assert Rearrange(operand, (1, 1, 2), np.array([1, -1]), fill=9).results()[0].range == (3, 9)


@pytest.mark.parametrize(
    "name", ["transpose (2, 0, 1)", "pad constant", "upsample 2", "slice backwards", "permutation"]
)
def test_less_than_the_live_capacity_deadlocks(name: str) -> None:
    shape, x = MAPS[name]
    operator, lanes = rearranged(shape, x, 3), (2, min(2, x.shape[2]))
    live = operator.live_capacity(RearrangeFolding(*lanes))
    assert live > 1
    assert_proven(prove(alone(replace(operator, capacity=live), lanes, 4)))
    for capacity in {1, live // 2, live - 1}:
        run = prove(alone(replace(operator, capacity=capacity), lanes, 4))
        assert_proven(run, live=False)
        assert [line.split(" waits")[0] for line in run.deadlock] == ["node.writer", "node.reader"]
        assert "for node.reader to free the buffer" in run.deadlock[0]
        assert "for node.writer to write into the buffer" in run.deadlock[1]


@many
@given(rearrangements())
def test_the_live_capacity_is_the_least(drawn: tuple[Rearrange, Folding]) -> None:
    operator, folding = drawn
    live, offers = operator.live_capacity(folding), {"i": np.arange(3 * operator.input_orders(folding)[0].beats)}
    for capacity in {live, live - 1} - {0}:
        design = alone(replace(operator, capacity=capacity), folding, 2)
        assert bool(predict(design, 3, offers=offers).circle()) == (capacity < live)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("lanes", [(3, 1)])
def test_full_rate(name: str, lanes: tuple[int, int]) -> None:
    """No bubble at steady state: the interval is the number of operations of the busier engine."""
    shape, x = MAPS[name]
    folding = RearrangeFolding(min(lanes[0], shape[2]), min(lanes[1], x.shape[2]))
    run = Case(rearranged(shape, x), folding, depth=12, stalls=False, frames=6).check()
    assert run.interval_cycles == rearranged(shape, x).cycles(folding)


@many
@given(rearrangements())
def test_full_rate_of_any_map(drawn: tuple[Rearrange, Folding]) -> None:
    operator, folding = drawn
    design = alone(replace(operator, capacity=None), folding, 12)
    run = predict(design, 9, offers={"i": np.zeros(9 * operator.input_orders(folding)[0].beats, dtype=np.int64)})
    assert run.elapsed(4, 9) == 5 * operator.cycles(folding)


@many
@given(rearrangements())
def test_facts(drawn: tuple[Rearrange, Folding]) -> None:
    assert_facts(*drawn)


@st.composite
def channels_of_rows(draw: st.DrawFn) -> tuple[Rearrange, RearrangeFolding]:
    """Some channels of every row, each row a pixel, with turns that are rows; and a folding."""
    rows, width, chosen = draw(st.integers(1, 9)), draw(st.integers(1, 6)), draw(st.integers(1, 7))
    numbers = np.array(draw(st.lists(st.integers(0, width - 1), min_size=chosen, max_size=chosen)))
    source = (np.arange(rows)[:, None] * width + numbers).reshape(-1)
    whole = Rearrange(Tensor((rows, 1, width), BYTES), (rows, 1, chosen), source)
    assert not whole.row_by_row
    operator = whole.on_loop()
    assert isinstance(operator, Rearrange)
    return operator, RearrangeFolding(draw(st.integers(1, width)), draw(st.integers(1, chosen)))


@many
@given(channels_of_rows())
def test_rows_on_a_loop_wait_for_no_later_one(drawn: tuple[Rearrange, RearrangeFolding]) -> None:
    operator, folding = drawn
    assert operator.row_by_row
    (buffer,), rows = operator.schedule(folding).buffers, operator.shape[0]
    beats, operations = operator.input_orders(folding)[0].beats, operator.output_orders(folding)[0].beats
    for operation, beat in zip(np.asarray(buffer.waits), np.asarray(buffer.needs), strict=True):
        assert beat // (beats // rows) <= operation // (operations // rows)
    data = np.random.default_rng(0).integers(-128, 128, (2, *operator.operand.shape))
    (whole,) = replace(operator, turns_are_rows=False).golden(data)
    for row in range(rows):
        np.testing.assert_array_equal(operator.golden(data[:, row : row + 1])[0], whole[:, row : row + 1])


@few
@given(cases(channels_of_rows()))
def test_circuits_on_a_loop(case: Case) -> None:
    case.check()


def test_others_have_no_form_for_a_loop() -> None:
    turned = Rearrange(Tensor((2, 1, 2), BYTES), (2, 1, 2), np.array([0, 2, 1, 3]))
    assert turned.on_loop() is turned
    with pytest.raises(ValueError, match="must read its own row of the operand alone"):
        replace(turned, turns_are_rows=True)


@pytest.mark.parametrize("name", ["pad constant", "channel shuffle", "expand a channel", "flatten as NCHW"])
def test_foldings_keep_up(name: str) -> None:
    assert_foldings_keep_up(rearranged(*MAPS[name]))


def copies(operator: Rearrange, in_lanes: int, out_lanes: int) -> int:
    return len(operator.plan(RearrangeFolding(in_lanes, out_lanes)).walk.ports)


def test_lanes_that_travel_together_share_a_copy_of_the_ring() -> None:
    assert copies(rearranged(*MAPS["pad constant"]), 4, 4) == 1
    assert copies(rearranged(*MAPS["channel shuffle"]), 6, 3) == 1
    assert copies(rearranged(*MAPS["expand a channel"]), 1, 5) == 1
    assert copies(rearranged(*MAPS["depth to space DCR"]), 2, 2) == 1
    assert copies(rearranged((2, 2, 9), positions((2, 2, 9))[:, :, 1:]), 4, 4) == 2
    assert copies(rearranged(*MAPS["flatten as NCHW"]), 4, 4) == 4


def test_loops_separate_the_data() -> None:
    """Regular maps are read by short tables, a frame in a few turns; a random one by a table of all its beats."""
    pad = rearranged((16, 16, 4), padded(positions((16, 16, 4)), ((1, 1), (1, 1), (0, 0)), "constant"))
    assert pad.plan(RearrangeFolding(2, 2)).loops == (18, 18, 2)
    flatten = rearranged((7, 7, 64), positions((7, 7, 64)).transpose(2, 0, 1).reshape(1, 1, -1))
    assert max(flatten.plan(RearrangeFolding(8, 1)).loops) < 200
    random = rearranged((4, 4, 4), np.random.default_rng(0).permutation(64).reshape(4, 4, 4))
    assert random.plan(RearrangeFolding(4, 4)).loops == (1, 1, 16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 1, 3), np.zeros(2, dtype=int)), r"shape \(2,\) does not make a result of shape \(1, 1, 3\)"),
        (((1, 0, 3), np.zeros(0, dtype=int)), r"does not make a result of shape \(1, 0, 3\)"),
        (((1, 1, 2), np.array([0, 48])), r"-1 or in 0\.\.47"),
        (((1, 1, 2), np.array([0, -2])), r"-1 or in 0\.\.47"),
        (((1, 1, 2), np.array([-1, -1])), "never wait for a frame"),
        (((1, 1, 2), np.array([0, -1]), 128), "fill 128 does not fit i8"),
        (((1, 1, 1), np.array([0]), 0, 0), "at least one beat, not 0"),
    ],
)
def test_refuses(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rearrange(Tensor(IMAGE, BYTES), *arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(("exceptions", "one_by_one"), [(8, True), (9, False), (40, False)])
def test_many_exceptions_are_not_asked_for_one_by_one(exceptions: int, one_by_one: bool) -> None:
    """Each would be a multiplexer behind the others: a path as long as the table."""
    m, index, entry = Module(), Signal(6), Signal(7)
    m.d.comb += entry.eq(circuit._entry(index, [*range(1, exceptions + 1), *[0] * (64 - exceptions)]))
    netlist = rtlil.convert(m, ports=[index, entry])
    assert netlist.count("cell $mux") == (exceptions if one_by_one else 0)


@many
@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 99))
def test_rows_are_counted_once_each(count: int, kinds: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    for length in (1, 3, 5000):
        rows = random.integers(0, kinds, (count, min(length, 2))).repeat(-(-length // 2), axis=1).astype(np.int32)
        assert rearrange_plan._distinct(rows) == len(np.unique(rows, axis=0))


def test_beside_a_memory_that_no_chip_has_the_first_loops_will_do() -> None:
    turned = rearranged((640, 640, 3), positions((640, 640, 3)).transpose(1, 0, 2))
    plan = turned.plan(RearrangeFolding(1, 1))
    assert plan.resources(plan.turns.rate_capacity).bram >= rearrange_plan.MAX_BLOCK_RAMS
    assert plan.loops == (640, 640, 3)


# ---- for the tests of every core -----------------------------------------------------------------------------------


Patch = Callable[[pytest.MonkeyPatch], None]


def case(name: str, lanes: tuple[int, int], capacity: int | None = None, **more: Any) -> Case:
    operator = rearranged(*MAPS[name], fill=-77)
    if capacity is not None:
        operator = type(operator)(operator.operand, operator.shape, operator.source, operator.fill, capacity)
    return Case(operator, RearrangeFolding(*lanes), **{"depth": 2} | more)


def live(name: str, lanes: tuple[int, int]) -> int:
    return rearranged(*MAPS[name]).live_capacity(RearrangeFolding(*lanes))


def at_live(name: str, lanes: tuple[int, int], **more: Any) -> Case:
    """With no beat to spare: what is released one operation early is overwritten before it is read."""
    return case(name, lanes, live(name, lanes), **more)


def at_elaboration(method: str, change: Callable[[Any, Any], Any]) -> Patch:
    """What a method of the circuit returns is changed: ``change(core, result)``."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = getattr(circuit.Rearrange, method)
        patch.setattr(circuit.Rearrange, method, lambda self, *given: change(self, original(self, *given)))

    return apply


def located(change: Callable[[Any], None]) -> Patch:
    """The circuit believes in another map."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Rearrange._locate

        def locate(self: Any, *given: Any) -> None:
            original(self, *given)
            change(self)

        patch.setattr(circuit.Rearrange, "_locate", locate)

    return apply


def wrong_address(core: Any, parts: list[list[int]]) -> list[list[int]]:
    """One turn of the longest loop is a beat off."""
    longest = max(parts, key=len)
    longest[len(longest) // 2] += 1
    return parts


def wrong_slice(core: Any) -> None:
    """Two lanes of a stored beat are confused, in the last output beat alone."""
    last = core.takes[-1]
    core.takes[-1] = [taken ^ 1 if taken >= 0 else taken for taken in last]


def fill_is_ignored(core: Any) -> None:
    core.takes[core.takes == circuit.FILL] = 0


def fill_is_another(core: Any) -> None:
    core.fill += 1


def releases(by: int) -> Callable[[Any, Any], Any]:
    """Every turn but the last gives back more, or less."""

    def change(core: Any, turns: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
        needed, released = turns
        return needed, [min(max(0, count + by), core.in_beats) for count in released[:-1]] + released[-1:]

    return change


def waits_for(more: int) -> Callable[[Any, Any], Any]:
    def change(core: Any, turns: tuple[list[int], list[int]]) -> tuple[list[int], list[int]]:
        needed, released = turns
        return [max(1, count + more) if count else 0 for count in needed], released

    return change


def padding_waits(core: Any, flag: Any) -> Any:
    """Turns that read nothing wait for the frame before."""
    return 0


def frames_begin_at_zero(patch: pytest.MonkeyPatch) -> None:
    """The place of a frame in the ring is forgotten."""
    patch.setattr(circuit.Rearrange, "_base", lambda self, m, reader: Signal(range(self.ring)))


def ignores_room(patch: pytest.MonkeyPatch) -> None:
    """The writer stores what it gets."""
    patch.setattr(
        engine.Engine, "holds", lambda self, which, condition: Const(1, 1) if self.name == "writer" else condition
    )


def constant(**values: int) -> Patch:
    """Of the circuit's class."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for name, value in values.items():
            patch.setattr(circuit.Rearrange, name, value)

    return apply


def law(**values: Any) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        for name, value in values.items():
            patch.setattr(constraints, name, value)

    return apply


def operator_latency(by: int) -> Patch:
    """The law counts another number of stages."""
    return lambda patch: patch.setattr(Rearrange, "LATENCY", Rearrange.LATENCY + by)


def stale_selects(patch: pytest.MonkeyPatch) -> None:
    """What selects the elements comes one cycle late."""
    original = circuit.LaneSelection.resolve

    def resolve(self: Any, m: Module, answers: Any) -> Any:
        return engine.delayed(m, original(self, m, answers), 1, "late")

    patch.setattr(circuit.LaneSelection, "resolve", resolve)


DRAWS = {"rearrange": random_rearrange}
STRATEGIES = {"rearrange": rearrangements()}
CASES = {
    "rearrange": case("transpose (1, 0, 2)", (2, 2), seed=1),
    "pad": case("pad constant", (4, 4)),
    "transpose": case("transpose (1, 0, 2)", (2, 2), seed=1),
    "backwards": case("slice backwards", (4, 2)),
    "depth to space": case("depth to space CRD", (4, 2)),
    "signal": case("a signal, padded", (2, 2)),
    "resize": case("upsample 3 × 1", (4, 4), capacity=8),
}
USUAL = tuple(CASES)[1:]
CASES |= {
    "tight": at_live("upsample 2", (4, 4), depth=9, seed=2),
    "narrow rearrange": case("column", (2, 2), capacity=2, depth=9),
    "crop": case("crop and pad", (4, 4), depth=9),
}
FAULTS = [
    Fault("an address is off by one", at_elaboration("_separate", wrong_address), USUAL),
    Fault("the wrong slice of a beat", located(wrong_slice), ("transpose", "backwards", "depth to space")),
    Fault("the fill is ignored", located(fill_is_ignored), ("pad", "signal")),
    Fault("another fill", located(fill_is_another), ("pad", "signal")),
    Fault("a beat is given back too early", at_elaboration("_turns", releases(+1)), ("resize", "tight")),
    Fault("a beat is given back too late", at_elaboration("_turns", releases(-1)), ("resize", "tight")),
    Fault("a turn does not wait for its last beat", at_elaboration("_turns", waits_for(-1)), ("backwards", "resize")),
    Fault("a turn waits for a beat too many", at_elaboration("_turns", waits_for(+1)), ("backwards", "resize")),
    Fault("padding waits for the frame before", at_elaboration("_needs_nothing", padding_waits), ("crop",)),
    Fault("a frame begins where the first did", frames_begin_at_zero, ("pad", "resize", "transpose")),
    Fault("the writer ignores the room", ignores_room, ("resize", "tight")),
    Fault("the reader looks one cycle late", looks_late("reader"), USUAL),
    Fault("the writer looks one cycle late", looks_late("writer"), USUAL),
    Fault("the law says d + 1", law(BUFFER_DELAY=2), USUAL, of_law=True),
    Fault("the law says d - 1", law(BUFFER_DELAY=0), USUAL, of_law=True),
    Fault("the pipeline has a stage more than the law", operator_latency(-1), USUAL),
    Fault("the pipeline has a stage less than the law", operator_latency(+1), USUAL),
    Fault("a result is taken a cycle late", constant(LATENCY=8), USUAL),
    Fault("a result is taken a cycle early", constant(LATENCY=6), USUAL),
    Fault("a beat is written after it is read", constant(WRITE_STAGE=5), ("narrow rearrange",)),
    Fault("a beat is overwritten before it is read", constant(WRITE_STAGE=2), ("narrow rearrange",)),
    Fault("the pattern comes one cycle late", stale_selects, ("pad", "backwards", "depth to space")),
]
NARROW_CORES = {
    "rearrange": (
        Rearrange(NARROW_IMAGE, (4, 5, 6), np.arange(120).reshape(5, 4, 6).swapaxes(0, 1).reshape(-1)),
        RearrangeFolding(4, 3),
    ),
}
WIDE_CORES = {
    "rearrange": (
        Rearrange(WIDE_IMAGE, (4, 5, 32), np.arange(640).reshape(5, 4, 32).swapaxes(0, 1).reshape(-1)),
        RearrangeFolding(16, 16),
    ),
}
