"""Multiply: the circuit against golden and against the firing law."""

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
from onnx_hw.ops.folding import ElementFolding, Folding
from onnx_hw.ops.multiply import Multiply, MultiplyFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import multiply as circuit
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault
from support.operator_facts import assert_facts, assert_foldings_keep_up, beside
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import cuts, multipliers, tensors, types


@st.composite
def products(draw: st.DrawFn) -> tuple[Multiply, Folding]:
    """Of narrow factors, some of wide ones, with offsets to and beyond zero points."""
    a = draw(tensors())
    b = Tensor(a.shape, draw(st.one_of(types, types, st.builds(Int, st.integers(17, 35), st.booleans()))))
    offset = st.one_of(st.just(0), st.integers(-300, 300))
    operator = Multiply(a, replace(b, high=b.range[1] // 2), (draw(offset), draw(offset)))
    return operator, MultiplyFolding(*draw(cuts(a)), draw(multipliers))


def random_multiply(draw: Random) -> Operator:
    shape = random_image(draw).shape
    a, b = (Tensor(shape, Int(draw.choice((8, 8, 12, 16, 20)), True)) for _ in range(2))
    return Multiply(a, b, draw.choice(((0, 0), (3, -7))))


SHAPE = (3, 2, 4)


def multiply(a: Int, b: Int, offsets: tuple[int, int] = (0, 0)) -> Multiply:
    return Multiply(Tensor(SHAPE, a), Tensor(SHAPE, b), offsets)


@few
@given(cases(products()))
def test_any_product(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("offsets", [(0, 0), (3, -128)])
def test_every_folding(lanes: int, offsets: tuple[int, int]) -> None:
    Case(multiply(Int(8), Int(8, False), offsets), MultiplyFolding(lanes)).check()


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("lanes", [5, 7])
def test_ragged_cuts(channels: int, lanes: int) -> None:
    operand = Tensor((3, 2, channels), Int(8))
    Case(Multiply(operand, operand, (-5, 0)), MultiplyFolding(lanes)).check()


@pytest.mark.parametrize(
    ("a", "b", "offsets", "result"),
    [
        (Int(8), Int(8), (0, 0), Int(16)),  # −128 · −128 is 2^14
        (Int(8, False), Int(8, False), (0, 0), Int(16, False)),
        (Int(8, False), Int(8), (0, 0), Int(16)),
        (Int(8), Int(8), (128, 128), Int(16, False)),
        (Int(8), Int(8), (-128, -128), Int(17, False)),  # two factors that are never positive
        (Int(8), Int(8), (-128, 128), Int(17)),
        (Int(1, False), Int(1), (0, 0), Int(1)),
        (Int(1, False), Int(1, False), (0, 0), Int(1, False)),
        (Int(1), Int(12), (1, -2048), Int(13)),
    ],
)
def test_products_of_extremes_fit(a: Int, b: Int, offsets: tuple[int, int], result: Int) -> None:
    operator = multiply(a, b, offsets)
    assert operator.results()[0].dtype == result
    for seed in range(3):
        Case(operator, MultiplyFolding(4), seed=seed).check()


@pytest.mark.parametrize(
    ("a", "b", "offsets", "multipliers"),
    [
        (Int(18), Int(18), (0, 0), 1),
        (Int(18), Int(18), (0, -1), 2),
        (Int(19, False), Int(8), (0, 0), 2),
        (Int(7), Int(36), (5, 0), 2),
        (Int(24), Int(24), (0, 0), 4),
        (Int(19, False), Int(29, False), (0, 0), 4),
    ],
)
def test_wide_factors_take_several_multipliers(a: Int, b: Int, offsets: tuple[int, int], multipliers: int) -> None:
    operator = multiply(a, b, offsets)
    assert operator.resources(MultiplyFolding(2)).dsp == 2 * multipliers
    for seed in range(3):
        Case(operator, MultiplyFolding(2), seed=seed).check()


@pytest.mark.parametrize("offsets", [(0, 0), (0, 3), (-7, 0), (-100, 200)])
def test_the_range_is_exact(offsets: tuple[int, int]) -> None:
    """Against every pair of values."""
    a, b = Tensor(SHAPE, Int(8), -3, 100), Tensor(SHAPE, Int(5), -16, -2)
    pairs = [(x + offsets[0]) * (y + offsets[1]) for x in range(-3, 101) for y in range(-16, -1)]
    assert Multiply(a, b, offsets).results()[0].range == (min(pairs), max(pairs))


def test_operands_are_as_wide_as_their_values() -> None:
    """Twenty bits that only ever hold eighteen pass one multiplier."""
    wide = Tensor(SHAPE, Int(20), -(2**17), 2**17 - 1)
    operator = Multiply(wide, wide)
    assert operator.multipliers == 1
    Case(operator, MultiplyFolding(1)).check()


def test_golden_is_the_definition() -> None:
    a, b = np.arange(24).reshape(1, *SHAPE), np.arange(24)[::-1].reshape(1, *SHAPE)
    expected = [(x - 5) * (y + 2) for x, y in zip(range(24), range(23, -1, -1), strict=True)]
    assert multiply(Int(8), Int(8), (-5, 2)).golden(a, b)[0].reshape(-1).tolist() == expected


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0)])
def test_full_rate(offsets: tuple[int, int]) -> None:
    operator = multiply(Int(8), Int(8), offsets)
    run = Case(operator, MultiplyFolding(2), depth=2 + operator.latency(), stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * 2 * 2


@many
@given(products())
def test_facts(drawn: tuple[Multiply, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    operator = multiply(Int(8), Int(8))
    assert_foldings_keep_up(operator)
    assert list(operator.foldings(12, *beside(operator, 3, 1))) == [MultiplyFolding(2), MultiplyFolding(3)]
    assert operator.resources(MultiplyFolding(3)).mac_lanes == operator.macs == 0


def test_refuses_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="must have one shape"):
        Multiply(Tensor((1, 2, 3), Int(8)), Tensor((1, 2, 4), Int(8)))
    with pytest.raises(ValueError, match="at most 36 bits, not 37"):
        multiply(Int(37), Int(8))
    with pytest.raises(ValueError, match="at most 48 bits, not 49"):
        multiply(Int(24), Int(25), (0, 0))


def test_is_told_with_its_offsets() -> None:
    assert repr(multiply(Int(8), Int(8), (-5, 2))) == "Multiply (a −5)·(b +2)"
    assert repr(multiply(Int(8), Int(8), (0, 2))) == "Multiply a·(b +2)"
    assert repr(multiply(Int(8), Int(8))) == "Multiply"


# ---- for the tests of every core -----------------------------------------------------------------------------------


def multiplies_with(**changes: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other offsets or types than those of the operator."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Multiply.__init__

        def init(self: Any, a: Any, b: Any, factors: Any, result: Any, **named: Any) -> None:
            given = {"a": a, "b": b, "factors": factors, "result": result, **named}
            original(self, **given | {name: change(given[name]) for name, change in changes.items()})

        patch.setattr(circuit.Multiply, "__init__", init)

    return apply


STRATEGIES = {"multiply": products()}
DRAWS = {"multiply": random_multiply}
SMALL = Tensor((4, 4, 4), Int(8))
CASES = {"multiply": Case(Multiply(SMALL, SMALL, (7, -128)), MultiplyFolding(2), depth=2)}
FAULTS = [
    Fault("the offsets are exchanged", multiplies_with(offsets=lambda pq: pq[::-1])),
    Fault("an offset is one too large", multiplies_with(offsets=lambda pq: (pq[0], pq[1] + 1))),
    Fault("a factor is a bit too narrow", multiplies_with(factors=lambda f: (f[0], (f[1][0] - 1, True)))),
    Fault("a sign is lost", multiplies_with(factors=lambda f: (f[0], (f[1][0], False)))),
]
NARROW_CORES = {
    "multiply": (Multiply(NARROW_IMAGE, NARROW_IMAGE), MultiplyFolding(4)),
}
WIDE_CORES = {
    "multiply": (Multiply(WIDE_IMAGE, WIDE_IMAGE), ElementFolding(4)),
}
