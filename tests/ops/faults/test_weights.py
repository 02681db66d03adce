"""Deliberate faults of weights that come, of their buffer and their order, and of the law: the proof sees each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Value

from onnx_hw.exact.integers import Int
from onnx_hw.ops.matmul import MatMul, MatMulFolding
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit.check_run import Run
from onnx_hw.timing import constraints
from onnx_hw_rtl.cores.weights import WeightBuffer
from onnx_hw_rtl.streams import shared_buffer
from onnx_hw_rtl.streams.engine import delayed
from support.design_bench import Bench, assert_proven, no_stall, random_stall
from support.hand_built_designs import alone
from support.injected_faults import looks_late

VECTORS, MATRIX = Tensor((1, 4, 5), Int(5)), Tensor((1, 7, 5), Int(4))
OPERATORS = {
    "one group": MatMul(VECTORS, MATRIX, capacity=1),
    "two groups": MatMul(VECTORS, MATRIX, capacity=2),
    "all": MatMul(VECTORS, MATRIX),
    "no more than all": MatMul(VECTORS, MATRIX, capacity=3),
}
Fault = Callable[[pytest.MonkeyPatch], None]


def buffer_with(**methods: Any) -> Fault:
    return lambda patch: [patch.setattr(WeightBuffer, name, method) for name, method in methods.items()] and None


def with_rubbish(self: Any, payload: Any) -> Value:
    return delayed(self.m, Cat(Value.cast(payload[k]) for k in range(self.weights.lanes)), 2, "word")


def capacity_differs(by: int) -> Fault:
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


def law(**constants: int) -> Fault:
    return lambda patch: [patch.setattr(constraints, name, value) for name, value in constants.items()] and None


def given_back(patch: pytest.MonkeyPatch) -> None:
    """The law gives a word back as soon as it has been read."""
    original = MatMul.schedule

    def schedule(self: MatMul, folding: MatMulFolding) -> Any:
        made = original(self, folding)
        (buffer,) = made.buffers
        return replace(made, buffers=(replace(buffer, releases=buffer.waits),))

    patch.setattr(MatMul, "schedule", schedule)


EVERY = tuple(OPERATORS)
KEPT, PASSING = ("all", "no more than all"), ("one group", "two groups")
FAULTS: list[tuple[str, Fault, tuple[str, ...]]] = [
    ("what lies beyond the inputs is multiplied", buffer_with(_without_rubbish=with_rubbish), EVERY),
    ("a word is written after it is read", buffer_with(WRITE_STAGE=4), EVERY),
    ("the buffer has room for a word more", capacity_differs(+1), ("one group", "two groups", "no more than all")),
    ("the buffer has room for a word less", capacity_differs(-1), ("one group", "two groups", "no more than all")),
    (
        "a group is given back an operation early",
        buffer_with(_group_ends=lambda self, turn: turn["beat"] == self.beats - 2),
        EVERY,
    ),
    (
        "a group is given back after each tile",
        buffer_with(_group_ends=lambda self, turn: turn["beat"] == self.beats - 1),
        KEPT,
    ),
    ("the first word is not needed again", buffer_with(_again=lambda self, turn: turn["tile"] & 0), KEPT),
    ("the first word is not read again", reads_on, ("all",)),
    ("two lanes have each other's weights", lanes_are_swapped, EVERY),
    ("words run the other way", words_run_the_other_way, EVERY),
    ("the weights' engine looks one cycle late", looks_late("weights"), PASSING),
    ("the multipliers look one cycle late", looks_late("matmul"), EVERY),
    ("the law says d + 1", law(BUFFER_DELAY=2), EVERY),
    ("the law says d - 1", law(BUFFER_DELAY=0), EVERY),
    ("the law gives words back one by one", given_back, EVERY),
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
def test_fault_is_caught(fault: Fault, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert any(run.mismatches or run.firing_mismatches for run in runs(name)), "the proof does not see the fault"
