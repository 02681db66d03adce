"""MatMul: exact arithmetic at every width, the circuit against golden and against the firing law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.matmul import EXACT_IN_FLOAT64, MatMul, MatMulFolding
from onnx_hw.ops.tensor import Tensor
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.random_operators import matmuls


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


def test_full_rate() -> None:
    """As many cycles per frame as there are groups of products, whatever the cut."""
    matmul = MatMul(Tensor((2, 3, 10), Int(8)), weights(7, 10))
    run = Case(matmul, MatMulFolding(3, 2), depth=5, stalls=False, frames=4).check()
    assert run.interval_cycles == matmul.cycles(MatMulFolding(3, 2)) == 6 * 4 * 4


@many
@given(matmuls())
def test_facts(drawn: tuple[MatMul, Folding]) -> None:
    assert_facts(*drawn)


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
