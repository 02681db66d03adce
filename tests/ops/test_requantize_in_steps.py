"""Deliberate faults of a requantizer that takes several steps: the proof must see each.

Every fault is a patch of the circuit, or of what the schedule says; the product has no hooks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Value

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.ops.requantize import Monotone
from onnx_hw.ops.tensor import Tensor
from onnx_hw.prove.circuit.run_comparison import Run
from onnx_hw_rtl.cores import multiply_add_shift, requantize
from onnx_hw_rtl.cores.multiply_add_shift import MultiplyAddShift, Turn
from support import core_tests
from support.design_bench import Bench, random_stall
from support.hand_built_designs import alone

ByArithmetic = core_tests.load("requantize").ByArithmetic

SCALES = tuple(Fraction(k, 2**20 + 1) for k in (325, 2502, 25000, 925, 64))
TIES = tuple(Fraction(k, 2**9) for k in (1, 2, 16, 4, 3))
OFFSETS = tuple(Fraction(k, 3) for k in (0, -5, 7, 1, 10))

Patch = Callable[[pytest.MonkeyPatch], None]


def proof(steps: int, *, ties: bool = False) -> Run:
    """With the arguments on both sides of every threshold, where a sum that is off by little gives another result.

    Five channels are on two lanes, so that a lane changes its constants and the last beat is ragged.
    """
    operator = ByArithmetic(
        Tensor((8, 8, 5), Int(20)), TIES if ties else SCALES, OFFSETS, Grid.over(Int(6), zero_point=-3).within(-31, 31)
    )
    at = np.zeros((64, 5), dtype=np.int64)
    at[: operator.exact.thresholds.shape[1]] = np.clip(operator.exact.thresholds.T, -(2**19) + 1, 2**19 - 1)
    frames = np.stack([at - 1, at]).reshape(2, 8, 8, 5)
    design = alone(operator, (2, 2, steps), 3)
    return Bench(design).prove(random_stall(design, 2, 1), frames=2, inputs={"i": frames})


@pytest.mark.parametrize(("steps", "ties"), [(1, False), (3, False), (4, False), (1, True), (2, True), (3, True)])
def test_without_a_fault(steps: int, ties: bool) -> None:
    assert proof(steps, ties=ties).agrees


# ---- the circuit --------------------------------------------------------------------------------------------------


def turns(change: Callable[[Turn], Turn]) -> Patch:
    """Every lane is told something else."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = requantize.Requantize._turns
        patch.setattr(
            requantize.Requantize, "_turns", lambda self, m, engine: [change(t) for t in original(self, m, engine)]
        )

    return apply


def fact(name: str, change: Callable[[Any], Any]) -> Patch:
    """A property of the arithmetic has another value."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = getattr(MultiplyAddShift, name)
        get = original.func if hasattr(original, "func") else original.fget
        patch.setattr(MultiplyAddShift, name, property(lambda self: change(get(self))))

    return apply


def constants(change: Callable[[Value, int, int], Value]) -> Patch:
    """The memory says something else: ``change(word, bits of the digits, bits of the slice)``."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = MultiplyAddShift._constants

        def changed(self: MultiplyAddShift, *arguments: Any) -> Value:
            return change(original(self, *arguments), 2 * self.rows, self.slice_bits)

        patch.setattr(MultiplyAddShift, "_constants", changed)

    return apply


def no_carry(patch: pytest.MonkeyPatch) -> None:
    """The row of a digit −1 stays one too small."""
    original = multiply_add_shift._plus
    patch.setattr(multiply_add_shift, "_plus", lambda a, b, carry: original(a, b, Const(0, 1)))


def digits_of(change: Callable[[list[int]], list[int]]) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        original = multiply_add_shift.codes
        patch.setattr(multiply_add_shift, "codes", lambda factor, count=1: change(original(factor, count)))

    return apply


def swap_rows(word: Value, digits: int, each: int) -> Value:
    """The two lowest digits of every step have changed places."""
    return Cat(word[2:4], word[:2], word[4:])


def clear_slice(word: Value, digits: int, each: int) -> Value:
    """The top bit of every slice of the addend is lost."""
    return Cat(word[: digits + each - 1], Const(0, 1))


NEVER = Const(0, 1)
CIRCUIT: dict[str, Patch] = {
    "a sum begins with what the last one left": turns(lambda t: Turn(t.fired, NEVER, t.step, t.place)),
    "every step takes what is on the stream": turns(lambda t: Turn(t.fired, t.fired, t.step, t.place)),
    "a sum goes on while nothing fires": turns(lambda t: Turn(Const(1, 1), t.taken, t.step, t.place)),
    "the constants are those of the neighbour": turns(lambda t: Turn(t.fired, t.taken, t.step, t.place ^ 1)),
    "a row of -1 lacks its one": no_carry,
    "the digits begin with the second": digits_of(lambda found: [*found[1:], 0]),
    "-1 is taken for 2": digits_of(lambda found: [2 if code == 3 else code for code in found]),
    "two digits of a step are swapped": constants(swap_rows),
    "a bit of the addend is lost": constants(clear_slice),
    "the addend is stored with a bit too few": fact("zeros", lambda bits: bits + 1),
}


@pytest.mark.parametrize("name", CIRCUIT)
def test_a_fault_of_the_circuit_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CIRCUIT[name](monkeypatch)
    assert proof(4).mismatches, "the proof does not see the fault"


# ---- the law ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize("steps", [1, 4])
def test_another_latency_is_caught(steps: int, by: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Monotone.latency
    monkeypatch.setattr(Monotone, "latency", lambda self, folding: original(self, folding) + by)
    assert proof(steps).firing_mismatches


def test_a_beat_taken_at_its_last_step_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    original = requantize.Engine

    def engine(*arguments: Any, pops: Any, **named: Any) -> Any:
        ((stream, _),), ((_, last),) = pops, named["pushes"]
        return original(*arguments, pops=[(stream, last)], **named)

    monkeypatch.setattr(requantize, "Engine", engine)
    assert proof(4).firing_mismatches


def test_one_step_less_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The circuit multiplies by all digits, in fewer steps than the schedule says."""
    original = requantize.Requantize.__init__

    def init(self: Any, arithmetic: Any, **named: Any) -> None:
        fewer = {name: getattr(arithmetic, name) for name in arithmetic.__dataclass_fields__} | {"steps": 3}
        original(self, MultiplyAddShift(**fewer), **named)

    monkeypatch.setattr(requantize.Requantize, "__init__", init)
    assert proof(4).firing_mismatches
