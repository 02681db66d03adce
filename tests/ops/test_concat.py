"""Concat: the circuit against golden and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ops.concat import CHANNELS as CHANNEL_AXIS
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.folding import EvenFolding, Folding
from onnx_hw.ops.fork import Fork
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.search_folding import choose_folding
from onnx_hw.schedule.size_fifos import size_fifos
from onnx_hw.timing.prediction import predict
from onnx_hw_rtl.cores import concat as circuit
from support.design_bench import assert_proven, prove
from support.hand_built_designs import Sketch
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up, beside
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import lane_counts, types


@st.composite
def concats(draw: st.DrawFn) -> tuple[Concat, Folding]:
    """Two to four tensors of one type or of several, of their whole range or a part of it."""
    shape, axis = draw(st.tuples(*[st.integers(1, 3)] * 2, st.integers(1, 5))), draw(st.integers(0, 2))
    cut = draw(lane_counts(shape[2]))
    alike, several = draw(types), draw(st.booleans())
    operands = []
    for last in [False] * draw(st.integers(1, 3)) + [True]:
        size = draw(st.integers(1, 7 if axis == CHANNEL_AXIS else 3))
        if axis == CHANNEL_AXIS and not last:
            size = cut * draw(st.integers(1, 3))
        dtype = draw(types) if several else alike
        low, high = sorted(draw(st.tuples(*[st.integers(dtype.min, dtype.max)] * 2)))
        height, width, channels = (size if k == axis else length for k, length in enumerate(shape))
        bounds = draw(st.sampled_from([(None, None), (low, high)]))
        operands.append(Tensor((height, width, channels), dtype, *bounds))
    return Concat(tuple(operands), axis), EvenFolding(cut)


def random_concat(draw: Random) -> Operator:
    one, axis = random_image(draw, (4, 8, 12)), draw.randrange(3)
    return Concat((one,) * draw.randint(2, 4), axis)


i8 = Int(8)


def images(*shapes: tuple[int, int, int], dtype: Int = i8) -> tuple[Tensor, ...]:
    return tuple(Tensor(shape, dtype) for shape in shapes)


ROWS = Concat(images((1, 2, 3), (3, 2, 3), (2, 2, 3)), 0)
COLUMNS = Concat(images((2, 1, 3), (2, 4, 3)), 1)
CHANNELS = Concat(images((2, 2, 4), (2, 2, 8), (2, 2, 3)), 2)


@few
@given(cases(concats()))
def test_any_concat(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("concat", [ROWS, COLUMNS, CHANNELS], ids=repr)
def test_every_folding(concat: Concat) -> None:
    legal = [lanes for lanes in range(1, 9) if not concat.illegal(EvenFolding(lanes))]
    assert legal == ([1, 2, 4] if concat is CHANNELS else [1, 2, 3])
    for lanes in legal:
        Case(concat, EvenFolding(lanes)).check()


@pytest.mark.parametrize("concat", [ROWS, COLUMNS], ids=repr)
def test_ragged_cuts(concat: Concat) -> None:
    """Rows and columns leave the pixels whole: any cut will do."""
    for lanes in (2, 5, 7):
        Case(concat, EvenFolding(lanes)).check()


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_the_last_operand_may_be_ragged(channels: int) -> None:
    """With fewer channels than lanes too."""
    Case(Concat(images((3, 2, 8), (3, 2, 4), (3, 2, channels)), 2), EvenFolding(4)).check()


@pytest.mark.parametrize("count", [2, 3, 4, 5, 9])
def test_many_operands(count: int) -> None:
    operands = images(*((2, 2, 2 + 2 * (k % 3)) for k in range(count)))
    for seed in range(2):
        Case(Concat(operands, 2), EvenFolding(2), seed=seed).check()


@pytest.mark.parametrize(
    ("types", "result"),
    [
        ((Int(8), Int(8), Int(8)), Int(8)),
        ((Int(8), Int(8, False)), Int(9)),
        ((Int(3), Int(12), Int(1, False)), Int(12)),
        ((Int(3, False), Int(7, False)), Int(7, False)),
        ((Int(1), Int(1, False)), Int(2)),
    ],
)
def test_extremes_of_every_type_pass(types: tuple[Int, ...], result: Int) -> None:
    concat = Concat(tuple(Tensor((2, 2, 2), dtype) for dtype in types), 2)
    assert concat.results()[0].dtype == result
    for seed in range(3):
        Case(concat, EvenFolding(2), seed=seed).check()


def test_the_range_is_the_union() -> None:
    """Types that differ give the narrowest one that holds the values, here narrower than an operand's."""
    alike = Concat((Tensor((1, 1, 1), i8, -3, 2), Tensor((1, 1, 1), i8, -1, 5)), 2).results()[0]
    assert (alike.dtype, alike.range) == (i8, (-3, 5))
    mixed = Concat((Tensor((1, 1, 1), i8, -3, 2), Tensor((1, 1, 1), Int(8, False), 0, 7)), 2)
    assert (mixed.results()[0].dtype, mixed.results()[0].range) == (Int(4), (-3, 7))
    Case(mixed, EvenFolding(1)).check()


def test_golden_is_the_definition() -> None:
    a, b = np.arange(8).reshape(2, 1, 2, 2), np.arange(10, 18).reshape(2, 1, 2, 2)
    operands = images((1, 2, 2), (1, 2, 2))
    assert Concat(operands, 0).golden(a, b)[0][1].tolist() == [[[4, 5], [6, 7]], [[14, 15], [16, 17]]]
    assert Concat(operands, 1).golden(a, b)[0][1].tolist() == [[[4, 5], [6, 7], [14, 15], [16, 17]]]
    assert Concat(operands, 2).golden(a, b)[0][1].tolist() == [[[4, 5, 14, 15], [6, 7, 16, 17]]]


@pytest.mark.parametrize("concat", [ROWS, COLUMNS, CHANNELS], ids=repr)
def test_full_rate(concat: Concat) -> None:
    """A beat in every cycle, whichever input it comes from."""
    run = Case(concat, EvenFolding(2), depth=3, stalls=False, frames=4).check()
    assert run.interval_cycles == concat.cycles(EvenFolding(2)) == concat.output_orders(EvenFolding(2))[0].beats


@many
@given(concats())
def test_facts(drawn: tuple[Concat, Folding]) -> None:
    assert_facts(*drawn)


@pytest.mark.parametrize("concat", [ROWS, COLUMNS, CHANNELS], ids=repr)
def test_foldings_keep_up(concat: Concat) -> None:
    assert_foldings_keep_up(concat)


def test_foldings_are_legal_and_meet_the_neighbours_where_they_can() -> None:
    concat = Concat(images((2, 2, 12), (2, 2, 24), (2, 2, 5)), 2)
    for interval in range(1, 200):
        found = list(concat.foldings(interval, *beside(concat, 12, 5)))
        assert not [folding for folding in found if concat.illegal(folding)]
        assert (EvenFolding(12) in found) == (interval >= 4 * 4)
    assert list(concat.foldings(4 * 41)) == [EvenFolding(1), EvenFolding(2), EvenFolding(3)]
    assert list(concat.foldings(4 * 11, *beside(concat, 12, 6))) == [EvenFolding(4), EvenFolding(6), EvenFolding(12)]
    assert list(concat.foldings(15)) == []


def test_an_illegal_folding_is_told_with_its_number() -> None:
    concat = Concat(images((2, 2, 12), (2, 2, 6), (2, 2, 5)), 2)
    assert concat.illegal(EvenFolding(6)) == ""
    assert "must divide 6, the channels of i1" in concat.illegal(EvenFolding(4))
    assert "must divide 12, the channels of i0" in concat.illegal(EvenFolding(5))
    assert "must be 1..12" in concat.illegal(EvenFolding(13))
    with pytest.raises(ValueError, match="must divide 6"):
        concat.core(EvenFolding(4), {"o": 2})


def test_refuses_what_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="two tensors or more"):
        Concat(images((1, 2, 3)), 2)
    with pytest.raises(ValueError, match="one shape but for axis 2"):
        Concat(images((1, 2, 3), (2, 2, 3)), 2)
    with pytest.raises(ValueError, match="must be 0, 1 or 2, not -1"):
        Concat(images((1, 2, 3), (1, 2, 3)), -1)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_copies_of_one_tensor(axis: int) -> None:
    """FIFOs are sized for what one copy keeps while the other has its turn: a whole frame for rows."""
    x = Tensor((3, 2, 4), i8)
    sketch = Sketch()
    copies = sketch.add("fork", Fork(x), [sketch.input("x", x)], (2, 2), 1, 1)
    sketch.add("join", Concat((x, x), axis), copies, (2, 2), 1)
    design = size_fifos(sketch.design())
    assert_proven(prove(design, frames=3, stalls=False))
    assert_proven(prove(design, frames=3, seed=1))
    offers = {"x": np.zeros(8 * 6 * 2, dtype=np.int64)}
    assert predict(design, 8, offers=offers).interval(8) == 2 * 6 * 2


@pytest.mark.parametrize("lanes", [8, 24, 60])
def test_branches_are_folded_and_joined(lanes: int) -> None:
    """Two layers side by side, as in an inception block: every folding is legal, the circuit is right."""
    generator = np.random.default_rng(0)
    x = Tensor((3, 3, 5), Int(4))
    sketch = Sketch()
    copies = sketch.add("fork", Fork(x), [sketch.input("x", x)], (1, 1), 1, 1)
    branches = [
        sketch.add(f"layer{k}", MatMul(x, generator.integers(-8, 8, (channels, 5))), [copies[k]], (1, 1), 1)[0]
        for k, channels in enumerate((12, 7))
    ]
    concat = Concat(tuple(sketch.tensors[branch] for branch in branches), 2)
    (joined,) = sketch.add("join", concat, branches, (1, 1), 1)
    sketch.add("head", MatMul(sketch.tensors[joined], generator.integers(-8, 8, (3, 19))), [joined], (1, 1), 1)
    network = sketch.design().network
    foldings = choose_folding(network, Budget(mac_lanes=lanes))
    assert foldings is not None
    assert not [node for node in network.nodes if node.operator.illegal(foldings[node.name])]
    design = size_fifos(Design(*insert_gearboxes(network, foldings), {}))
    assert_proven(prove(design, frames=3, seed=1))
    assert_proven(prove(design, frames=3, stalls=False))


# ---- for the tests of every core -----------------------------------------------------------------------------------


def joins_with(change: Callable[[list[Any], list[int]], tuple[list[Any], list[int]]]) -> Callable[..., None]:
    """Other types of the inputs, or other beats of each."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Concat.__init__

        def init(self: Any, *inputs: Any, **named: Any) -> None:
            changed, beats = change(list(inputs), list(named["beats"]))
            original(self, *changed, **named | {"beats": beats})

        patch.setattr(circuit.Concat, "__init__", init)

    return apply


def a_sign_is_lost(inputs: list[Any], beats: list[int]) -> tuple[list[Any], list[int]]:
    """And another one appears."""
    return [inputs[0], *(replace(shape, signed=not shape.signed) for shape in inputs[1:])], beats


def a_beat_comes_from_the_neighbour(inputs: list[Any], beats: list[int]) -> tuple[list[Any], list[int]]:
    return inputs, [beats[0] - 1, beats[1] + 1, *beats[2:]]


def takes_the_payload_of_another(patch: pytest.MonkeyPatch) -> None:
    """The beat of the input that is popped is lost."""
    original = circuit.Concat._input_of
    patch.setattr(circuit.Concat, "_input_of", lambda self, turn: original(self, turn) ^ 1)


def changes_the_payload_late(patch: pytest.MonkeyPatch) -> None:
    """By one operation."""
    original = circuit.Concat._input_of
    patch.setattr(circuit.Concat, "_input_of", lambda self, turn: original(self, {"beat": turn["beat"] - 1}))


STRATEGIES = {"concat": concats()}
DRAWS = {"concat": random_concat}
THREE = (Tensor((4, 4, 4), Int(8)), Tensor((4, 4, 2), Int(6)), Tensor((4, 4, 3), Int(6, False)))
CASES = {"concat": Case(Concat(THREE, 2), EvenFolding(2), depth=2, seed=2)}
FAULTS = [
    Fault("operands are extended with the wrong sign", joins_with(a_sign_is_lost)),
    Fault("a beat is taken from the next operand", joins_with(a_beat_comes_from_the_neighbour)),
    Fault("the payload is not that of the token", takes_the_payload_of_another),
    Fault("the payload changes one operation late", changes_the_payload_late),
]
NARROW_CORES = {
    "concat": (Concat((NARROW_IMAGE,) * 3, 2), EvenFolding(3)),
}
WIDE_CORES = {
    "concat": (Concat((WIDE_IMAGE,) * 3, 2), EvenFolding(8)),
}
