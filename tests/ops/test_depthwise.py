"""Depthwise: golden against its definition, the circuit against golden and against the firing law."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ops.depthwise import Depthwise, DepthwiseFolding
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import depthwise as circuit
from onnx_hw_rtl.cores.depthwise import Depthwise as Circuit
from onnx_hw_rtl.streams import engine
from support.design_bench import assert_proven, prove
from support.hand_built_designs import Sketch, alone
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault, stale_accumulator
from support.operator_facts import assert_facts, assert_foldings_keep_up, beside
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image, random_integers, random_sliding
from support.random_operators import capacities, multipliers, sliding_foldings, slidings, types
from support.sliding_faults import sliding_faults


@st.composite
def depthwise(draw: st.DrawFn) -> tuple[Depthwise, DepthwiseFolding]:
    """One result per channel, or several."""
    s, dtype = draw(slidings()), draw(types)
    pad_value = draw(st.integers(dtype.min, dtype.max))
    low, high = draw(st.sampled_from([(-128, 127), (-7, 7), (-1, 1), (0, 15), (-3, 0), (0, 0)]))
    channels = s.shape[2]
    size = (channels * draw(st.sampled_from([1, 1, 2, 3, 4])), *s.kernel)
    weights = np.random.default_rng(draw(st.integers(0, 999))).integers(low, high + 1, size)
    operator = Depthwise(Tensor(s.shape, dtype), weights, s.strides, s.pads, s.dilations, pad_value)
    sides = draw(sliding_foldings(s, size[0]).filter(lambda folding: operator.aligned(folding.out_lanes)))
    taps = draw(st.one_of(st.just(1), st.integers(1, s.taps)))
    folding = DepthwiseFolding(**sides.numbers(), multiplier=draw(multipliers), taps=taps)
    return replace(operator, capacity=draw(capacities(operator, folding))), folding


def random_depthwise(draw: Random) -> Operator:
    operand, slides = random_image(draw), random_sliding(draw)
    outputs = operand.channels * draw.choice((1, 1, 1, 2))
    return Depthwise(operand, random_integers(draw, (outputs, *slides.pop("kernel"))), **slides)


IMAGE = Tensor((5, 4, 3), Int(8))


def weights(outputs: int, rows: int, columns: int, low: int = -128, high: int = 127) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high + 1, (outputs, rows, columns))


@few
@given(cases(depthwise()))
def test_any_depthwise(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(("channels", "lanes"), [(3, (5, 7)), (3, (2, 2)), (16, (5, 7)), (16, (7, 5)), (16, (4, 8))])
def test_ragged_cuts(channels: int, lanes: tuple[int, int]) -> None:
    operator = Depthwise(
        Tensor((4, 3, channels), Int(8)), weights(channels, 2, 2), (2, 1), (1, 0, 0, 1), pad_value=-128
    )
    Case(operator, DepthwiseFolding(*lanes)).check()


def test_every_folding_of_a_small_image() -> None:
    operator = Depthwise(Tensor((2, 2, 4), Int(8)), weights(4, 2, 2), pads=(1, 0, 0, 1), pad_value=7)
    for seed, lanes in enumerate(product(range(1, 5), repeat=2)):
        Case(operator, DepthwiseFolding(*lanes), depth=1 + seed % 5, frames=2, seed=seed).check()


def test_every_folding_with_several_results_per_channel() -> None:
    """A beat takes whole channels, or a channel whole beats."""
    operator = Depthwise(Tensor((2, 1, 3), Int(8)), weights(12, 1, 2), pads=(0, 1, 0, 0), pad_value=-5)
    cuts = [lanes for lanes in range(1, 13) if operator.aligned(lanes)]
    assert cuts == [1, 2, 4, 8, 12]
    for seed, lanes in enumerate(product((1, 2, 3), cuts)):
        Case(operator, DepthwiseFolding(*lanes), depth=1 + seed % 5, frames=2, seed=seed).check()


def test_taps_side_by_side() -> None:
    """Any number of them; those beyond the last one of the kernel count nothing, whatever lies there."""
    operator = Depthwise(Tensor((3, 4, 4), Int(8)), weights(4, 2, 3), pads=(1, 1, 0, 1), pad_value=-128)
    several = Depthwise(Tensor((2, 3, 3), Int(8)), weights(6, 3, 1), (2, 1), (1, 0, 1, 0), pad_value=99)
    for taps in range(1, 7):
        for seed, cut in enumerate(((4, 2), (2, 4), (3, 3), (2, 1, 2, 2))):
            folding = replace(DepthwiseFolding(*cut), taps=taps)
            Case(operator, folding, depth=1 + seed, frames=2, seed=seed).check()
    for taps in range(1, 4):
        for seed, cut in enumerate(((1, 1), (3, 2), (2, 6))):
            folding = replace(DepthwiseFolding(*cut), taps=taps)
            Case(several, folding, depth=1 + seed, frames=2, seed=seed).check()


@pytest.mark.parametrize(("bits", "signed"), [(1, False), (1, True), (8, False), (16, True), (18, True)])
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255), (-1, 0), (0, 1), (-(2**15), 2**15 - 1)])
def test_extremes_fit_the_accumulator(bits: int, signed: bool, low: int, high: int) -> None:
    """Every operand, every weight and the padding at an end of its range."""
    dtype = Int(bits, signed)
    extreme = np.random.default_rng(bits).choice([low, high], (2, 2, 3))
    operator = Depthwise(Tensor((2, 2, 2), dtype), extreme, pads=(1, 1, 0, 1), pad_value=dtype.min)
    Case(operator, DepthwiseFolding(2, 2), depth=2, frames=2, seed=bits).check()


def test_the_range_includes_the_padding_and_is_reached() -> None:
    operand = Tensor((1, 1, 1), Int(8), 0, 10)
    operator = Depthwise(operand, np.array([[[2, -3, 1]]]), pads=(0, 1, 0, 1), pad_value=-4)
    (result,) = operator.results()
    assert result.range == (2 * -4 - 3 * 10 + 1 * -4, 2 * 10 - 3 * -4 + 1 * 10)
    (unpadded,) = Depthwise(Tensor((1, 3, 1), Int(8), 0, 10), operator.weights, pad_value=-4).results()
    assert unpadded.range == (-30, 30)


def test_more_weights_than_one_block_ram_holds() -> None:
    """Several memories, each with an address of its own; more than a block RAM is deep."""
    operator = Depthwise(Tensor((2, 2, 64), Int(8)), weights(64, 3, 3), pads=(1, 1, 1, 1))
    Case(operator, DepthwiseFolding(32, 32), depth=4, frames=2).check()
    Case(replace(operator, operand=Tensor((1, 1, 64), Int(8))), DepthwiseFolding(4, 1), depth=4, frames=2).check()


@many
@given(depthwise(), st.integers(0, 99))
def test_golden_is_the_definition(drawn: tuple[Depthwise, Folding], seed: int) -> None:
    operator, _ = drawn
    (height, width, _), (rows, columns) = operator.operand.shape, operator.kernel
    (top, left, _, _), (sy, sx), (dy, dx) = operator.pads, operator.strides, operator.dilations
    dtype, multiplier = operator.operand.dtype, operator.multiplier
    image = np.random.default_rng(seed).integers(dtype.min, dtype.max + 1, (1, *operator.operand.shape))
    (result,) = operator.golden(image)
    assert result.shape[1:] == operator.results()[0].shape
    for y, x, output in product(*map(range, result.shape[1:])):
        total = 0
        for r, c in product(range(rows), range(columns)):
            row, column = y * sy - top + r * dy, x * sx - left + c * dx
            inside = 0 <= row < height and 0 <= column < width
            element = int(image[0, row, column, output // multiplier]) if inside else operator.pad_value
            total += element * int(operator.weights[output, r, c])
        assert result[0, y, x, output] == total


@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_one_beat_less_than_the_live_capacity_deadlocks(strides: tuple[int, int]) -> None:
    operator = Depthwise(IMAGE, weights(3, 2, 2), strides)
    live = operator.sliding.live_capacity(2)
    assert_proven(prove(alone(replace(operator, capacity=live), (2, 3), 4)))
    run = prove(alone(replace(operator, capacity=live - 1), (2, 3), 4))
    assert_proven(run, live=False)
    assert [line.split(" waits")[0] for line in run.deadlock] == ["node.writer", "node.reader"]


def test_full_rate() -> None:
    """No bubble at steady state: every multiplier has a product in every cycle."""
    same = Depthwise(IMAGE, weights(3, 3, 3), pads=(1, 1, 1, 1))
    for lanes, cycles in ((3, 5 * 4 * 9), (2, 5 * 4 * 2 * 9)):
        run = Case(same, DepthwiseFolding(3, lanes), stalls=False, frames=4).check()
        assert run.interval_cycles == same.cycles(DepthwiseFolding(3, lanes)) == cycles
    writes = Case(
        Depthwise(IMAGE, weights(3, 2, 2), (2, 2)), DepthwiseFolding(1, 3), depth=2, stalls=False, frames=4
    ).check()
    assert writes.interval_cycles == 5 * 4 * 3


def test_a_separable_block() -> None:
    """Between a requantizer and a product, on other lanes than they; every edge is compared."""
    sketch = Sketch()
    x = sketch.input("x", Tensor((4, 3, 5), Int(8)))
    operator = Depthwise(sketch.tensors[x], weights(10, 3, 3), (1, 2), (1, 1, 1, 1), pad_value=3)
    (y,) = sketch.add("depthwise", operator, [x], (2, 4), 3)
    requantize = Requantize(sketch.tensors[y], (Fraction(1, 300),), (Fraction(0),), Grid.over(Int(8)))
    (y,) = sketch.add("requantize", requantize, [y], (4, 4), 3)
    (y,) = sketch.add("product", MatMul(sketch.tensors[y], weights(3, 10, 1)[:, :, 0]), [y], (4, 2), 3)
    for seed in range(3):
        assert_proven(prove(sketch.design(), seed=seed))


@many
@given(depthwise())
def test_facts(drawn: tuple[Depthwise, Folding]) -> None:
    operator, folding = drawn
    assert_facts(operator, folding)
    used = operator.resources(folding)
    assert used.mac_lanes == used.dsp + folding.in_logic * used.mac_lanes
    assert used.mac_lanes == operator.output_orders(folding)[0].width * folding.taps
    assert operator.LATENCY == Circuit.LATENCY


def test_foldings_keep_up() -> None:
    assert_foldings_keep_up(Depthwise(IMAGE, weights(3, 2, 2), (2, 2)))
    several = Depthwise(IMAGE, weights(12, 2, 2))
    assert_foldings_keep_up(several)
    for interval in range(1, several.cycles(DepthwiseFolding(1, 1)), 7):
        assert not [
            folding for folding in several.foldings(interval, *beside(several, 2, 3)) if several.illegal(folding)
        ]


def test_taps_side_by_side_where_they_take_fewer_products() -> None:
    """Ten lanes of channels do what nine products would be enough for: three channels, three taps each."""
    operator = Depthwise(Tensor((5, 5, 64), Int(8)), weights(64, 3, 3), pads=(1, 1, 1, 1))
    interval = 25 * 69
    lanes = {folding.taps: operator.lanes(folding) for folding in operator.foldings(interval)}
    assert lanes == {1: 10, 3: 9} or min(lanes.values()) == 9
    for folding in operator.foldings(interval):
        assert operator.cycles(folding) <= interval and not operator.illegal(folding)
    assert "taps must be 1..9" in operator.illegal(DepthwiseFolding(1, 1, taps=10))


def test_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match=r"weights must be \(n · 3, rows, columns\) .* not \(4, 2, 2\)"):
        Depthwise(IMAGE, weights(4, 2, 2))
    with pytest.raises(ValueError, match=r"no window of .* touches the image"):
        Depthwise(Tensor((1, 1, 3), Int(8)), weights(3, 1, 1), (9, 1), (1, 0, 0, 0))
    with pytest.raises(ValueError, match="at least one beat, not 0"):
        Depthwise(IMAGE, weights(3, 2, 2), capacity=0)
    several = Depthwise(IMAGE, weights(12, 2, 2))
    assert "must divide 4" in several.illegal(DepthwiseFolding(1, 3))
    assert "must be 1..12" in several.illegal(DepthwiseFolding(1, 16))


# ---- for the tests of every core -----------------------------------------------------------------------------------


def one_kernel_weight_is_wrong(patch: pytest.MonkeyPatch) -> None:
    """The last tap of the last channel."""
    original = circuit.Depthwise.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.words[7, 1] ^= 1

    patch.setattr(circuit.Depthwise, "__init__", init)


def weights_of_the_neighbour(patch: pytest.MonkeyPatch) -> None:
    """Two lanes have changed their weights."""
    original = circuit.Depthwise._weights

    def weights(self: Any, *arguments: Any) -> Any:
        first, second, *others = original(self, *arguments)
        return [second, first, *others]

    patch.setattr(circuit.Depthwise, "_weights", weights)


def weights_come_late(patch: pytest.MonkeyPatch) -> None:
    """Beside the element of the next tap."""
    original = circuit.Depthwise._weights
    patch.setattr(
        circuit.Depthwise,
        "_weights",
        lambda self, m, reader: [engine.delayed(m, weight, 1, "late") for weight in original(self, m, reader)],
    )


STRATEGIES = {"depthwise": depthwise()}
DRAWS = {"depthwise": random_depthwise}
TALL = Tensor((5, 4, 4), Int(8))
KERNELS = np.random.default_rng(0).integers(-128, 128, (4, 2, 2))
CASES = {
    "depthwise": Case(
        Depthwise(TALL, KERNELS, (2, 2), (0, 0, 1, 1), pad_value=-9, capacity=8),
        DepthwiseFolding(4, 2),
        depth=2,
        seed=1,
    ),
    "narrow depthwise": Case(
        Depthwise(Tensor((9, 1, 2), Int(8)), KERNELS[:2, :1, :1], capacity=2), DepthwiseFolding(2, 2), depth=9
    ),
    "depthwise of taps": Case(
        Depthwise(TALL, KERNELS, (2, 2), (0, 0, 1, 1), pad_value=-9, capacity=8),
        DepthwiseFolding(4, 2, taps=3),
        depth=2,
        seed=1,
    ),
    "depthwise of pixels": Case(
        Depthwise(TALL, KERNELS, (2, 2), (0, 0, 1, 1), pad_value=-9, capacity=8),
        DepthwiseFolding(4, 2, 4, 2),
        depth=2,
        seed=1,
    ),
}
FAULTS = [
    *sliding_faults("depthwise"),
    Fault("an accumulator is stale in frame two", stale_accumulator),
    Fault("one weight of one lane is wrong", one_kernel_weight_is_wrong),
    Fault("two lanes have each other's weights", weights_of_the_neighbour),
    Fault("the weights come one cycle late", weights_come_late),
]
NARROW_CORES = {
    "depthwise": (Depthwise(NARROW_IMAGE, np.ones((6, 2, 2), dtype=np.int64)), DepthwiseFolding(2, 3)),
}
WIDE_CORES = {
    "depthwise": (Depthwise(WIDE_IMAGE, np.ones((32, 2, 2), dtype=np.int64)), DepthwiseFolding(32, 8)),
}
