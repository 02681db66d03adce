"""MatMul: exact arithmetic at every width, the circuit against golden and against the firing law."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.exact.matrix_product import EXACT_IN_FLOAT64
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw_boards.families.ice40.recipes import ICE40_UP
from onnx_hw_rtl.cores import matmul as circuit
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault, prove_case, stale_accumulator
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image, random_integer_type, random_integers
from support.random_operators import lane_counts, multipliers, pixel_counts, tensors, types


@st.composite
def matmuls(draw: st.DrawFn) -> tuple[MatMul, Folding]:
    operand, outputs = draw(tensors(12)), draw(st.integers(1, 10))
    low, high = draw(st.sampled_from([(-128, 127), (-7, 7), (-1, 1), (0, 15), (-3, 0), (0, 0)]))
    weights = np.random.default_rng(draw(st.integers(0, 999))).integers(low, high + 1, (outputs, operand.channels))
    folding = MatMulFolding(
        draw(lane_counts(operand.channels)),
        draw(lane_counts(outputs)),
        draw(pixel_counts(operand)),
        1,
        draw(multipliers),
    )
    operator = MatMul(operand, weights)
    return operator, draw(st.sampled_from([folding, *operator.in_blocks(folding, 1)]))


@st.composite
def matmuls_of_two(draw: st.DrawFn) -> tuple[MatMul, Folding]:
    """Weights that come, once a matrix or for every beat of pixels; a buffer for one group of results to one for all.

    Every other draw has one matrix a frame; a buffer of less than a matrix of a stack is legal for one beat of pixels.
    """
    operand, outputs, dtype = draw(tensors(9)), draw(st.integers(1, 7)), draw(types)
    stack = draw(st.sampled_from([1, 1, 2, 3]))
    height, width, channels = operand.shape
    operand = replace(operand, shape=(height * stack, width, channels))
    low, high = sorted(draw(st.tuples(*[st.integers(dtype.min, dtype.max)] * 2)))
    weights = Tensor((stack, outputs, channels), dtype, *draw(st.sampled_from([(None, None), (low, high)])))
    folding = MatMulFolding(
        draw(lane_counts(operand.channels)),
        draw(lane_counts(outputs)),
        draw(pixel_counts(operand)),
        1,
        draw(multipliers),
    )
    matmul = MatMul(operand, weights, capacity=draw(st.one_of(st.none(), st.sampled_from([1, 2]), st.integers(1, 9))))
    assume(not matmul.illegal(folding))
    return matmul, folding


def random_matmul(draw: Random) -> Operator:
    operand = random_image(draw, (3, 8, 9, 16, 27, 36, 64, 72))
    return MatMul(
        operand, random_integers(draw, (draw.choice((4, 8, 10, 16, 32)), operand.channels), draw.choice((4, 8, 8)))
    )


def random_matmul_in_blocks(draw: Random) -> Operator:
    """Few weights, which no chip would put into block RAM by their size."""
    operand = random_image(draw, (7, 8, 12))
    return MatMul(operand, random_integers(draw, (draw.choice((13, 14, 16)), operand.channels)))


def random_matmul_in_logic(draw: Random) -> Operator:
    operand = random_image(draw, (3, 4, 8, 9))
    return MatMul(operand, random_integers(draw, (draw.choice((2, 4, 6, 8)), operand.channels)))


def random_product_of_two(draw: Random) -> Operator:
    operand = random_image(draw, (4, 8, 12, 16))
    return MatMul(operand, Tensor((1, draw.choice((4, 6, 8, 12)), operand.channels), random_integer_type(draw)))


def weights(outputs: int, inputs: int, low: int = -128, high: int = 127) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high + 1, (outputs, inputs))


@few
@given(cases(matmuls()))
def test_any_matmul(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("inputs", [3, 16])
@pytest.mark.parametrize("lanes", [(5, 7), (7, 5), (5, 1), (1, 7)])
def test_ragged_cuts(inputs: int, lanes: tuple[int, int]) -> None:
    Case(MatMul(Tensor((1, 4, inputs), Int(8)), weights(9, inputs)), MatMulFolding(*lanes)).check()


def test_unfolded() -> None:
    """One cycle per pixel: nothing is replayed."""
    run = Case(
        MatMul(Tensor((2, 5, 6), Int(8)), weights(4, 6)), MatMulFolding(6, 4), depth=16, stalls=False, frames=4
    ).check()
    assert run.interval_cycles == 10


@pytest.mark.parametrize(("bits", "signed"), [(1, False), (1, True), (8, False), (16, True), (18, True)])
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 255), (-1, 0), (0, 1), (-(2**15), 2**15 - 1)])
def test_extremes_fit_the_accumulator(bits: int, signed: bool, low: int, high: int) -> None:
    """Every operand and every weight at an end of its range."""
    extreme = np.random.default_rng(0).choice([low, high], (3, 5))
    Case(MatMul(Tensor((1, 2, 5), Int(bits, signed)), extreme), MatMulFolding(3, 2), depth=2, seed=bits).check()


def test_operands_beyond_a_multiplier_are_multiplied_in_logic() -> None:
    operand = Tensor((1, 3, 4), Int(34), -(1 << 33), (1 << 33) - 1)
    operator = MatMul(operand, np.random.default_rng(0).integers(-8191, 8192, (3, 4)))
    assert operator.narrowest.in_logic and all(folding.in_logic for folding in operator.foldings(36))
    assert operator.illegal(MatMulFolding(1, 1)).startswith('multiplier must be "logic"')
    Case(operator, next(iter(operator.foldings(12)))).check()


def test_more_weights_than_one_block_ram_holds() -> None:
    """Several ROMs share the address; the vector has several copies."""
    case = Case(MatMul(Tensor((1, 2, 40), Int(8)), weights(24, 40)), MatMulFolding(7, 12), depth=4, frames=2)
    case.check()


def test_a_result_at_the_far_end_of_64_bits_is_exact() -> None:
    """Beyond 2^53 a float product would round."""
    matmul = MatMul(Tensor((1, 1, 2), Int(40)), np.array([[2**15 + 1, 1]]))
    operand = np.array([2**39 - 1, 3]).reshape(1, 1, 1, 2)
    assert EXACT_IN_FLOAT64 < (2**39 - 1) * (2**15 + 1)
    assert matmul.golden(operand)[0].item() == (2**39 - 1) * (2**15 + 1) + 3


@many
@given(matmuls(), st.integers(0, 99))
def test_golden_is_the_definition(drawn: tuple[MatMul, Folding], seed: int) -> None:
    matmul, _ = drawn
    dtype, shape = matmul.operand.dtype, matmul.operand.shape
    x = np.random.default_rng(seed).integers(dtype.min, dtype.max + 1, (2, *shape))
    expected = [
        [sum(map(int.__mul__, v.tolist(), row.tolist())) for row in matmul.weights] for v in x.reshape(-1, shape[2])
    ]
    assert matmul.golden(x)[0].reshape(-1, len(matmul.weights)).tolist() == expected


@pytest.mark.parametrize("least", [-(1 << 7), -(1 << 15), -(1 << 31)])
def test_weights_at_the_end_of_the_dtype_that_they_are_kept_in(least: int) -> None:
    """Their size does not fit into it."""
    product = MatMul(Tensor((1, 1, 3), Int(8)), np.full((1, 3), least))
    assert product.weights.dtype.itemsize == least.bit_length() // 8  # type: ignore[union-attr]
    assert product.results()[0].range == (3 * 127 * least, 3 * -128 * least)
    (found,) = product.golden(np.full((1, 1, 1, 3), -128))
    assert found.tolist() == [[[[3 * -128 * least]]]]
    words, _ = product.constant_words(product.narrowest)  # type: ignore[misc]
    assert words.dtype == np.int64 and (words == least).all()


def test_full_rate() -> None:
    """As many cycles per frame as there are groups of products, whatever the cut."""
    matmul = MatMul(Tensor((2, 3, 10), Int(8)), weights(7, 10))
    run = Case(matmul, MatMulFolding(3, 2), depth=5, stalls=False, frames=4).check()
    assert run.interval_cycles == matmul.cycles(MatMulFolding(3, 2)) == 6 * 4 * 4


@many
@given(matmuls())
def test_facts(drawn: tuple[MatMul, Folding]) -> None:
    assert_facts(*drawn)


def test_small_memories_in_block_ram() -> None:
    operator = MatMul(Tensor((2, 3, 10), Int(8)), weights(7, 10))
    assert list(operator.in_blocks(MatMulFolding(1, 3), 1)) == [MatMulFolding(1, 3, blocks=1)]
    assert not list(operator.in_blocks(MatMulFolding(2, 3), 1)), "a look-up table holds a bit of 15 words"
    assert operator.illegal(MatMulFolding(10, 7, blocks=1)) == "blocks must be 0 here, or 1 with more constant weights"
    assert operator.illegal(MatMulFolding(1, 3, blocks=2)) == "blocks must be 0 here, or 1 with more constant weights"
    assert not list(replace(operator, loaded=Int(8)).in_blocks(MatMulFolding(1, 3), 1))
    of_two = MatMul(Tensor((2, 3, 10), Int(8)), Tensor((1, 7, 10), Int(8)))
    assert of_two.illegal(MatMulFolding(1, 3, blocks=1)) == "blocks must be 0 here, or 1 with more constant weights"
    without, within = (operator.resources(MatMulFolding(1, 3, blocks=k), ICE40_UP.cost) for k in (0, 1))
    assert within.bram > without.bram and within.logic < 0.9 * without.logic
    Case(operator, MatMulFolding(1, 3, blocks=1)).check()


def test_foldings_keep_up() -> None:
    assert_foldings_keep_up(MatMul(Tensor((2, 3, 10), Int(8)), weights(7, 10)))


def test_refuses_weights_of_another_size() -> None:
    with pytest.raises(ValueError, match=r"weights must be \(outputs, 3\) .* not \(2, 4\)"):
        MatMul(Tensor((1, 1, 3), Int(8)), weights(2, 4))


def test_one_beat_of_vectors_is_a_tile() -> None:
    matmul = MatMul(Tensor((1, 4, 3), Int(8)), weights(2, 3))
    assert matmul.illegal(MatMulFolding(1, 1, 2, tile=1)) == ""
    assert matmul.illegal(MatMulFolding(1, 1, 2, tile=2)) == "tile must be 1 here"
    assert repr(MatMulFolding(1, 1, 2, tile=1)) == repr(MatMulFolding(1, 1, 2)) == "1×1, 2 pixels"


# ---- for the tests of every core -----------------------------------------------------------------------------------


def one_weight_is_wrong(patch: pytest.MonkeyPatch) -> None:
    original = circuit.MatMul.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        self.words[2, 3] ^= 1

    patch.setattr(circuit.MatMul, "__init__", init)


def pixels_have_one_vector(patch: pytest.MonkeyPatch) -> None:
    """The second pixel's results are those of the first."""
    original = circuit.MatMul._dot
    found: dict[int, Any] = {}

    def dot(self: Any, m: Any, place: int, vector: Any, weights: Any) -> Any:
        if place < self.out_lanes:
            found[place] = original(self, m, place, vector, weights)
        return found[place % self.out_lanes]

    patch.setattr(circuit.MatMul, "_dot", dot)


STRATEGIES = {"matmul": matmuls(), "matmul of two": matmuls_of_two()}
DRAWS = {
    "matmul": random_matmul,
    "matmul_in_blocks": random_matmul_in_blocks,
    "matmul_in_logic": random_matmul_in_logic,
    "product_of_two": random_product_of_two,
}
SMALL = MatMul(Tensor((4, 4, 4), Int(8)), np.random.default_rng(0).integers(-128, 128, (5, 4)))
CASES = {
    "matmul": Case(SMALL, MatMulFolding(2, 2), depth=2),
    "matmul of pixels": Case(SMALL, MatMulFolding(2, 2, 2), depth=2),
}
FAULTS = [
    Fault("an accumulator is stale in frame two", stale_accumulator),
    Fault("two pixels have one vector", pixels_have_one_vector, ("matmul of pixels",)),
    Fault("one weight of one lane is wrong", one_weight_is_wrong),
]
NARROW_CORES = {
    "matmul": (MatMul(NARROW_IMAGE, np.ones((7, 6), dtype=np.int64)), MatMulFolding(4, 3)),
    "matmul_of_two": (MatMul(NARROW_IMAGE, Tensor((1, 7, 6), Int(8)), capacity=1), MatMulFolding(4, 3)),
}
WIDE_CORES = {
    "matmul": (MatMul(WIDE_IMAGE, np.ones((32, 32), dtype=np.int64)), MatMulFolding(16, 2)),
    "matmul_of_two": (MatMul(WIDE_IMAGE, Tensor((1, 32, 32), Int(8)), capacity=1), MatMulFolding(16, 2)),
}


def test_a_wrong_value_is_told_in_the_words_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensor, frame, row, column, channel: output 3 is lane 1 of the second group."""
    one_weight_is_wrong(monkeypatch)
    run = prove_case(CASES["matmul"])
    assert run.firing_mismatches == 0
    assert re.fullmatch(r"node\.o\[0, 0, 0, 3\]: golden -?\d+, circuit -?\d+, cycle \d+", str(run.difference))
