"""MatMul whose weights come on a stream: values, firings under every stall, and what a frame's words are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Value
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.exact.matrix_product import EXACT_IN_FLOAT64
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw.timing import constraints
from onnx_hw_rtl.cores.weights import WeightBuffer
from onnx_hw_rtl.streams import shared_buffer
from onnx_hw_rtl.streams.engine import delayed
from support import core_tests
from support.design_bench import Bench, assert_proven, no_stall, prove, random_frames, random_stall
from support.hand_built_designs import alone
from support.injected_faults import looks_late
from support.operator_facts import assert_facts, assert_foldings_keep_up
from support.random_cases import Case, cases, few, many
from support.solvers import assert_solvers_agree, needs_compiler

matmuls_of_two = core_tests.load("matmul").matmuls_of_two

VECTORS = Tensor((2, 3, 5), Int(5))
MATRIX = Tensor((1, 7, 5), Int(4))


@few
@given(cases(matmuls_of_two()))
def test_any_product(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("capacity", [1, 2, None])
@pytest.mark.parametrize("folding", [(2, 3), (5, 2, 3), (4, 7), (1, 1, 2)])
def test_under_random_stalls_several_frames_back_to_back(capacity: int | None, folding: tuple[int, ...]) -> None:
    """Both operands hesitate with moods of their own; a reset in mid-frame leaves no trace."""
    bench = Bench(alone(MatMul(VECTORS, MATRIX, capacity=capacity), folding, 5))
    for seed in range(2):
        assert_proven(bench.prove(random_stall(bench.design, 4, seed), frames=4, seed=seed, false_start=9 * seed))


@pytest.mark.parametrize("folding", [(2, 3), (5, 2, 3)])
@pytest.mark.parametrize("shape", [(2, 3), (1, 1)])
def test_two_groups_are_full_rate_and_so_is_all_and_one_more(shape: tuple[int, int], folding: tuple[int, ...]) -> None:
    vectors, at = Tensor((*shape, 5), Int(5)), MatMulFolding(*folding[: 2 if shape == (1, 1) else 3])
    for capacity in (2, None):
        operator = MatMul(vectors, MATRIX, capacity=capacity)
        assert prove(alone(operator, at, 20), frames=4, stalls=False).interval_cycles == operator.cycles(at)


@pytest.mark.parametrize("folding", [(2, 3), (5, 2, 3), (5, 7), (4, 7, 2)])
def test_a_stack_is_full_rate(folding: tuple[int, ...]) -> None:
    """The next matrix comes while the vectors of the one before are multiplied."""
    operator, at = MatMul(Tensor((6, 3, 5), Int(5)), Tensor((3, 7, 5), Int(4))), MatMulFolding(*folding)
    assert operator.macs == 6 * 3 * 7 * 5
    run = prove(alone(operator, at, 20), frames=4, stalls=False)
    assert_proven(run)
    assert run.interval_cycles == operator.cycles(at)


def test_one_matrix_a_row_may_come_group_by_group() -> None:
    """Nothing is read again, so that a buffer of one group is enough."""
    operator, folding = MatMul(Tensor((3, 2, 5), Int(5)), Tensor((3, 7, 5), Int(4)), capacity=1), MatMulFolding(2, 3, 2)
    assert_proven(prove(alone(operator, folding, 6), frames=3, stalls=True))
    assert operator.illegal(MatMulFolding(2, 3)) == "the buffer must hold 3 groups here, those of a matrix of the stack"


def test_one_group_waits_for_its_successor() -> None:
    """The words of a group come only when the one before has been used: a cycle of waiting a group, no more."""
    operator, folding = MatMul(VECTORS, MATRIX, capacity=1), MatMulFolding(2, 3)
    groups = 6 * 3
    run = prove(alone(operator, folding, 20), frames=4, stalls=False)
    assert run.interval_cycles == operator.cycles(folding) + groups


@many
@given(matmuls_of_two())
def test_words_of_a_frame(drawn: tuple[MatMul, MatMulFolding]) -> None:
    """For each beat of pixels, or once where all of them are kept: each group, each beat, results outside."""
    matmul, folding = drawn
    stack, outputs, inputs = matmul.weights.shape
    numbers, rows = np.arange(1, stack * outputs * inputs + 1).reshape(1, stack, outputs, inputs), folding.out_lanes
    expected = [
        [
            int(numbers[0, matrix, row, k]) if row < outputs and k < inputs else 0
            for row in range(first, first + min(rows, outputs))
            for k in range(beat, beat + folding.in_lanes)
        ]
        for matrix in range(stack)
        for first in range(0, outputs, rows)
        for beat in range(0, inputs, folding.in_lanes)
    ]
    height, width, _ = matmul.operand.shape
    kept = matmul.capacity is None or matmul.capacity >= -(-outputs // rows)
    again = 1 if kept else height // stack * -(-width // folding.pixels)
    assert stack == 1 or again == 1
    assert matmul.input_orders(folding)[1].to_beats(numbers).tolist() == expected * again


@many
@given(matmuls_of_two(), st.integers(0, 99))
def test_golden_is_the_definition(drawn: tuple[MatMul, MatMulFolding], seed: int) -> None:
    """Each frame, and each part of it, with its own weights."""
    matmul, folding = drawn
    values = random_frames(alone(matmul, folding, 4), 2, seed)
    x, w = values["i"], values["w"]
    expected = [
        [sum(map(int.__mul__, v.tolist(), row.tolist())) for row in w[frame, matrix]]
        for frame in range(2)
        for matrix, vectors in enumerate(x[frame].reshape(w.shape[1], -1, x.shape[-1]))
        for v in vectors
    ]
    (found,) = matmul.golden(x, w)
    assert found.reshape(-1, matmul.weights.shape[1]).tolist() == expected
    low, high = matmul.results()[0].range
    assert low <= found.min() and found.max() <= high


@pytest.mark.parametrize("bits", [1, 2, 9])
def test_words_with_places_for_no_input_keep_their_lanes_apart(bits: int) -> None:
    """Also those of one signed bit: 0 and -1 together are a type of two."""
    design = alone(MatMul(Tensor((2, 1, 3), Int(2)), Tensor((1, 3, 3), Int(bits))), (2, 3), 4)
    assert_proven(prove(design, frames=3, seed=bits, stalls=True))


def test_a_result_at_the_far_end_of_64_bits_is_exact() -> None:
    """Beyond 2^53 a float product would round."""
    x, w = np.array([2**39 - 1, 3]).reshape(1, 1, 1, 2), np.array([2**15 - 1, 1]).reshape(1, 1, 1, 2)
    matmul = MatMul(Tensor((1, 1, 2), Int(40)), Tensor((1, 1, 2), Int(16)))
    assert EXACT_IN_FLOAT64 < (2**39 - 1) * (2**15 - 1)
    assert matmul.golden(x, w)[0].item() == (2**39 - 1) * (2**15 - 1) + 3


@many
@given(matmuls_of_two())
def test_facts(drawn: tuple[MatMul, MatMulFolding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    assert_foldings_keep_up(MatMul(VECTORS, MATRIX))


@needs_compiler
@many
@given(matmuls_of_two(), st.integers(1, 20), st.integers(0, 999))
def test_all_solvers_agree(drawn: tuple[MatMul, MatMulFolding], depth: int, seed: int) -> None:
    design = alone(*drawn, depth)
    assert_solvers_agree(design, seed, design.interval)


def test_the_bound_of_the_accumulator_is_reached() -> None:
    x, w = Tensor((1, 1, 3), Int(4)), Tensor((1, 2, 3), Int(3), -4, 2)
    (result,) = MatMul(x, w).results()
    assert result.range == (3 * 7 * -4, 3 * -8 * -4)
    design = alone(MatMul(x, w), (2, 2), 4)
    ends = {"i": np.full((2, 1, 1, 3), -8), "w": np.full((2, 1, 2, 3), -4)}
    assert_proven(Bench(design).prove(no_stall(design, 2), frames=2, inputs=ends))


@pytest.mark.parametrize(
    ("weights", "capacity", "told"),
    [
        (Tensor((1, 7, 4), Int(4)), None, r"weights must be \(stack, outputs, 5\) for i5\[2,3,5\], not \(1, 7, 4\)"),
        (Tensor((7, 1, 5), Int(4)), None, r"rows of i5\[2,3,5\] cannot be divided among 7 matrices"),
        (MATRIX, 0, "at least one group, not of 0"),
        (np.ones((7, 5), dtype=np.int64), 2, "constant ones are there"),
    ],
)
def test_refuses_what_is_no_matrix(weights: Tensor | np.ndarray, capacity: int | None, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        MatMul(VECTORS, weights, capacity=capacity)


# ---- deliberate faults of the buffer of weights, of their order, and of the law -------------------------------------


ROW = Tensor((1, 4, 5), Int(5))
OPERATORS = {
    "one group": MatMul(ROW, MATRIX, capacity=1),
    "two groups": MatMul(ROW, MATRIX, capacity=2),
    "all": MatMul(ROW, MATRIX),
    "no more than all": MatMul(ROW, MATRIX, capacity=3),
    "a stack": MatMul(Tensor((4, 1, 5), Int(5)), Tensor((2, 7, 5), Int(4))),
}
Patch = Callable[[pytest.MonkeyPatch], None]


def buffer_with(**methods: Any) -> Patch:
    return lambda patch: [patch.setattr(WeightBuffer, name, method) for name, method in methods.items()] and None  # type: ignore[return-value]


def with_rubbish(self: Any, payload: Any) -> Value:
    return delayed(self.m, Cat(Value.cast(payload[k]) for k in range(self.weights.lanes)), 2, "word")


def capacity_differs(by: int) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        original = shared_buffer.SharedBuffer.__init__
        patch.setattr(
            shared_buffer.SharedBuffer,
            "__init__",
            lambda self, capacity, need, span: original(self, capacity + by, need, span),
        )

    return apply


def reads_on(patch: pytest.MonkeyPatch) -> None:
    """The address does not go back to the first word."""
    original = WeightBuffer._address
    never = Const(0, 1)
    patch.setattr(
        WeightBuffer, "_address", lambda self, engine, again: original(self, engine, again if again is None else never)
    )


def lanes_are_swapped(patch: pytest.MonkeyPatch) -> None:
    original = WeightBuffer.read

    def read(self: Any, *arguments: Any) -> Any:
        first, second, *others = original(self, *arguments)
        return [second, first, *others]

    patch.setattr(WeightBuffer, "read", read)


def words_run_the_other_way(patch: pytest.MonkeyPatch) -> None:
    """For each beat, for each group."""
    original = MatMul.weight_words
    patch.setattr(
        MatMul, "weight_words", lambda self, folding: replace(original(self, folding), tile=self.matrix.shape[1])
    )


def second_matrix_is_needed_early(patch: pytest.MonkeyPatch) -> None:
    """The law has the reader wait for the words of all matrices before the first one has been read again."""
    original = MatMul.schedule

    def schedule(self: MatMul, folding: MatMulFolding) -> Any:
        made = original(self, folding)
        (buffer,) = made.buffers
        return replace(made, buffers=(replace(buffer, waits=AffineSequence.every(len(buffer.waits))),))

    patch.setattr(MatMul, "schedule", schedule)


def law(**constants: int) -> Patch:
    return lambda patch: [patch.setattr(constraints, name, value) for name, value in constants.items()] and None  # type: ignore[return-value]


def given_back(patch: pytest.MonkeyPatch) -> None:
    """The law gives a word back as soon as it has been read."""
    original = MatMul.schedule

    def schedule(self: MatMul, folding: MatMulFolding) -> Any:
        made = original(self, folding)
        (buffer,) = made.buffers
        return replace(made, buffers=(replace(buffer, releases=buffer.waits),))

    patch.setattr(MatMul, "schedule", schedule)


ALL = tuple(OPERATORS)
KEPT, PASSING = ("all", "no more than all", "a stack"), ("one group", "two groups")
FAULTS: list[tuple[str, Patch, tuple[str, ...]]] = [
    ("what lies beyond the inputs is multiplied", buffer_with(_masked_word=with_rubbish), ALL),
    ("a word is written after it is read", buffer_with(WRITE_STAGE=4), ALL),
    ("the buffer has room for a word more", capacity_differs(+1), ("one group", "two groups", "no more than all")),
    ("the buffer has room for a word less", capacity_differs(-1), ("one group", "two groups", "no more than all")),
    (
        "a group is given back an operation early",
        buffer_with(_group_ends=lambda self, turn: turn["beat"] == self.beats - 2),
        ALL,
    ),
    (
        "a group is given back after each tile",
        buffer_with(_group_ends=lambda self, turn: turn["beat"] == self.beats - 1),
        KEPT,
    ),
    ("the first word is not needed again", buffer_with(_again=lambda self, turn: turn["tile"] & 0), KEPT),
    ("the first word is not read again", reads_on, ("all", "a stack")),
    ("two lanes have each other's weights", lanes_are_swapped, ALL),
    ("words run the other way", words_run_the_other_way, ALL),
    ("the weights' engine looks one cycle late", looks_late("weights"), PASSING),
    ("the multipliers look one cycle late", looks_late("matmul"), ALL),
    ("the law says d + 1", law(BUFFER_DELAY=2), ALL),
    ("the law says d - 1", law(BUFFER_DELAY=0), ALL),
    ("the law gives words back one by one", given_back, ALL),
    ("the law has the second matrix needed with the first", second_matrix_is_needed_early, ("a stack",)),
]


def runs(name: str) -> Iterator[Run]:
    """With vectors that come late, so that the buffer is full, and under stalls, where it is empty as well."""
    bench = Bench(alone(OPERATORS[name], (2, 3), 6))
    at_once, stalled = no_stall(bench.design, 4), random_stall(bench.design, 4, 2)
    late = replace(at_once, offers={**at_once.offers, "i": 30 + 7 * np.arange(4 * 4 * 3)})
    yield from (bench.prove(stall, frames=4, seed=2) for stall in (late, stalled))


@pytest.mark.parametrize("name", OPERATORS)
def test_without_a_fault(name: str) -> None:
    for run in runs(name):
        assert_proven(run)


@pytest.mark.parametrize(
    ("fault", "name"),
    [pytest.param(fault, name, id=f"{name}: {told}") for told, fault, names in FAULTS for name in names],
)
def test_fault_is_caught(fault: Patch, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert any(run.mismatches or run.firing_mismatches for run in runs(name)), "the proof does not see the fault"
