"""Normalize: golden against its definition, the circuit against golden and against the firing law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import floor
from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Signal
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw.exact.integers import Int
from onnx_hw.exact.inverse_root import inverse_root
from onnx_hw.ops.folding import Folding, MultiplierKind
from onnx_hw.ops.normalize import Normalize, NormalizeFolding
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.tensor import Tensor
from onnx_hw_rtl.cores import normalize as circuit
from support.injected_faults import NARROW_IMAGE, WIDE_IMAGE, Fault, stale_accumulator
from support.operator_facts import assert_facts
from support.random_cases import Case, cases, few, many
from support.random_cores import random_image
from support.random_operators import lane_counts, multipliers, tensors, types

TYPES = st.one_of(types, st.sampled_from([Int(16), Int(18), Int(13, False)]))


@st.composite
def normalizations(draw: st.DrawFn) -> tuple[Normalize, Folding]:
    """With and without mean, of narrow and of wide data, with small epsilons and large ones."""
    operand = replace(draw(tensors(9)), dtype=draw(TYPES))
    centered = draw(st.booleans())
    operator = Normalize(
        operand,
        centered,
        operand.channels if centered else draw(st.sampled_from([1, operand.channels])),
        draw(st.sampled_from([0, 1, 77, 10**6])),
        draw(st.sampled_from([0, 0, 3])),
        draw(st.sampled_from([8, 16])),
        draw(st.sampled_from([6, 18])),
    )
    return operator, NormalizeFolding(draw(lane_counts(operand.channels)), draw(multipliers))


def random_normalize(draw: Random) -> Operator:
    operand = replace(random_image(draw, (8, 12, 16, 24)), dtype=Int(draw.choice((8, 16))))
    return Normalize(operand, draw.random() < 0.6, operand.channels, 1 << 16)


def normalize(operand: Tensor, **others: Any) -> Normalize:
    return Normalize(operand, **{"centered": True, "weight": operand.channels, "epsilon": 9} | others)


@few
@given(cases(normalizations()))
def test_any_normalization(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("lanes", [1, 2, 3, 7])
def test_every_folding(lanes: int, centered: bool) -> None:
    kind = MultiplierKind.LOGIC if lanes == 2 else MultiplierKind.HARDWARE
    Case(normalize(Tensor((1, 3, 7), Int(8)), centered=centered), NormalizeFolding(lanes, kind), seed=lanes).check()


# ---- golden ----------------------------------------------------------------------------------------------------------


def rounded(number: Fraction) -> int:
    below = floor(number)
    rest = number - below
    return below + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1))


def by_definition(operator: Normalize, row: list[int]) -> list[int]:
    """With fractions; r is found by bisection, and decided by its inequalities."""
    mean = sum(row) if operator.centered else 0
    squares = operator.weight * sum(x * x for x in row) - mean * mean
    w = 4**operator.finer * squares + operator.epsilon
    if not w:
        return [0] * len(row)
    half = next(h for h in range(1, 99) if 4 ** (h - 1) <= w < 4**h)
    f = operator.mantissa_bits - 1 + half
    low, high = 0, 1 << operator.mantissa_bits + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if (2 * middle - 1) ** 2 * w <= 4 ** (f + 1) else (low, middle)
    assert (2 * low - 1) ** 2 * w <= 4 ** (f + 1) <= (2 * low + 1) ** 2 * w
    results = []
    for x in row:
        share = rounded(Fraction(2**operator.finer * (operator.weight * x - mean) * 2**18, 2**half))
        results.append(rounded(Fraction(share * low, 2 ** (18 + operator.mantissa_bits - 1 - operator.fraction_bits))))
    return results


@many
@given(normalizations(), st.integers(0, 99))
def test_golden_is_the_definition(drawn: tuple[Normalize, Folding], seed: int) -> None:
    operator, _ = drawn
    low, high = operator.operand.range
    draw = np.random.default_rng(seed)
    narrow = draw.choice([high - low, 3, 1])  # pixels of equal elements, too
    image = np.clip(draw.integers(low, low + narrow + 1, (2, *operator.operand.shape)), low, high)
    made = operator.golden(image)[0]
    assert made.shape == image.shape and made.dtype == np.int64
    (result,) = operator.results()
    assert result.range[0] <= made.min() and made.max() <= result.range[1]
    for place in np.ndindex(made.shape[:3]):
        assert made[place].tolist() == by_definition(operator, image[place].tolist())


def test_close_to_the_real_normalization() -> None:
    """At int8, of pixels whose sizes differ by e^±1.2: seldom another integer, never by more than a step."""
    draw = np.random.default_rng(1)
    sizes = np.exp(draw.uniform(-1.2, 1.2, (1, 40, 20, 1)))
    image = np.rint(draw.normal(0, 6000, (1, 40, 20, 24)) * sizes).astype(np.int64)
    operator = normalize(Tensor((40, 20, 24), Int(17)), epsilon=10**6)
    centered = image - image.mean(axis=3, keepdims=True)
    wanted = np.rint(32 * centered / np.sqrt((centered**2).mean(axis=3, keepdims=True) + 10**6 / 24**2))
    made = np.rint(32 * operator.golden(image)[0] / 2**operator.fraction_bits)
    assert np.abs(made - wanted).max() <= 1 and (made != wanted).mean() <= 3e-4


def test_roots_at_their_ends() -> None:
    for number, bits, wanted in ((1, 4, (8, 4)), (4, 4, (16 >> 1, 5)), (3, 4, (9, 5 - 1)), (15, 4, (8, 5))):
        assert inverse_root(number, bits) == (round(2 ** wanted[1] / number**0.5), wanted[1])
    for number in (*range(1, 400), 4**20 - 1, 4**20, 4**20 + 1):
        for bits in (4, 16):
            root, f = inverse_root(number, bits)
            assert 1 << bits - 1 <= root <= 1 << bits
            assert (2 * root - 1) ** 2 * number <= 4 ** (f + 1) <= (2 * root + 1) ** 2 * number


# ---- facts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("channels", "lanes", "interval"), [(24, 1, 24), (24, 3, 18), (4, 1, 18)])
def test_full_rate(channels: int, lanes: int, interval: int) -> None:
    """One element per lane and cycle, or one pixel per root."""
    operator, folding = normalize(Tensor((1, 3, channels), Int(8))), NormalizeFolding(lanes)
    run = Case(operator, folding, depth=2 + operator.latency(folding), stalls=False, frames=4).check()
    assert run.interval_cycles == 3 * interval


@many
@given(normalizations())
def test_facts(drawn: tuple[Normalize, Folding]) -> None:
    assert_facts(*drawn)


def test_foldings_keep_up() -> None:
    operator = normalize(Tensor((3, 4, 40), Int(8)))
    assert list(operator.foldings(240)) == [NormalizeFolding(2)]
    assert list(operator.foldings(480)) == [NormalizeFolding(1)]
    assert not list(operator.foldings(200)), "a root takes 18 cycles"


def test_refuses_what_it_cannot_do() -> None:
    operand = Tensor((1, 1, 4), Int(8))
    for changes, message in (
        ({"weight": 3}, "weight of centered data must be 4"),
        ({"centered": False, "weight": 0}, "weight must be 1 or more"),
        ({"epsilon": -1}, "epsilon and finer 0 or more"),
        ({"mantissa_bits": 2}, "4..20 bits of a root"),
        ({"operand": Tensor((1, 1, 4), Int(37))}, "at most 36 bits"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(normalize(operand), **changes)


def test_is_told_by_its_kind() -> None:
    operand = Tensor((1, 1, 4), Int(8))
    assert repr(normalize(operand)) == "Normalize with mean"
    assert repr(normalize(operand, centered=False)) == "Normalize without mean"


# ---- for the tests of every core -----------------------------------------------------------------------------------


def normalize_with(**changes: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Other constants than those of the operator."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        original = circuit.Normalize.__init__

        def init(self: Any, **named: Any) -> None:
            original(self, **named | {name: change(named[name]) for name, change in changes.items()})

        patch.setattr(circuit.Normalize, "__init__", init)

    return apply


def unused_lanes_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(circuit.Normalize, "_used", lambda self, ends, lane, element: element)


def roots_are_rounded_down(patch: pytest.MonkeyPatch) -> None:
    original = circuit.root_in_steps

    def root(m: Any, w: Any, half: int, bits: int, **strobes: Any) -> Any:
        exact = original(m, w, half, bits, **strobes)
        found = Signal(len(exact))
        m.d.comb += found.eq(exact - (exact[0] & (exact > 1 << bits - 1)))
        return found

    patch.setattr(circuit, "root_in_steps", root)


STRATEGIES = {"normalize": normalizations()}
DRAWS = {"normalize": random_normalize}
SMALL = Tensor((1, 4, 7), Int(6))
CASES = {"normalize": Case(normalize(SMALL), NormalizeFolding(2), depth=2, seed=2)}
FAULTS = [
    Fault("an accumulator is stale in frame two", stale_accumulator),
    Fault("the epsilon is one too large", normalize_with(epsilon=lambda epsilon: 40 * epsilon)),
    Fault("the weight is one too large", normalize_with(weight=lambda weight: weight + 1)),
    Fault("the shift is one too large", normalize_with(shift=lambda shift: shift + 1)),
    Fault("an unused lane counts", unused_lanes_count),
    Fault("the root is off by one", roots_are_rounded_down),
]
NARROW_CORES = {"normalize": (normalize(NARROW_IMAGE), NormalizeFolding(4))}
WIDE_CORES = {"normalize": (normalize(WIDE_IMAGE), NormalizeFolding(16))}
