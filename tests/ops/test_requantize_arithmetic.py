"""Requantize in numpy: the same as its definition in exact rationals, for every value, fast enough for whole frames."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.requantization import prove
from onnx_hw.ops.requantize import Requantize
from onnx_hw.ops.tensor import Tensor
from support.exact_requantization import Formula, formulas


def operator_of(formula: Formula, shape: tuple[int, int]) -> Requantize:
    operand = Tensor((*shape, 3), Int.holding(formula.first, formula.last), formula.first, formula.last)
    return Requantize(operand, formula.multiplier, formula.offset, formula.grid)


@settings(max_examples=60)
@given(formulas(), st.integers(0, 2**32 - 1))
def test_golden_is_the_definition(formula: Formula, seed: int) -> None:
    operator = operator_of(formula, (3, 4))
    x = np.random.default_rng(seed).integers(formula.first, formula.last, (2, 3, 4, 3), endpoint=True)
    (y,) = operator.golden(x)
    assert y.dtype == np.int64 and y.shape == x.shape
    expected = [formula.value(place[-1], int(x[place])) for place in np.ndindex(*x.shape)]
    assert y.reshape(-1).tolist() == expected
    assert operator.results() == (Tensor((3, 4, 3), Int(8), formula.low, formula.high),)


@settings(max_examples=20)
@given(formulas())
def test_the_circuit_is_proven(formula: Formula) -> None:
    operator = operator_of(formula, (1, 1))
    assert prove(operator.circuit, operator.exact) > 0


def test_a_layer_of_sixty_four_channels_takes_milliseconds() -> None:
    """The best of several runs, since machines are shared."""
    scales = tuple(Fraction(1000 + k, 10**6 + 3) for k in range(64))
    operator = Requantize(Tensor((32, 32, 64), Int(20)), scales, (Fraction(1, 3),), Grid.over(Int(8), zero_point=3))
    x = np.random.default_rng(1).integers(-(1 << 19), 1 << 19, (1, 32, 32, 64))
    operator.golden(x)
    seconds = []
    for _ in range(5):
        start = time.process_time()
        operator.golden(x)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.02
