"""The definition of a requantizer, evaluated one number at a time in exact rationals; and draws of its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.step_function import Steps, steps


@dataclass(frozen=True)
class Formula:
    """clamp(rhe(multiplier·x + offset) + zero_point, low, high), channel by channel, for x in first..last."""

    multiplier: tuple[Fraction, ...]
    offset: tuple[Fraction, ...]
    zero_point: int
    low: int
    high: int
    first: int
    last: int

    @property
    def channels(self) -> int:
        return max(len(self.multiplier), len(self.offset))

    @property
    def grid(self) -> Grid:
        return Grid.over(Int(8), zero_point=self.zero_point).within(self.low, self.high)

    def value(self, channel: int, x: int) -> int:
        exact = self.multiplier[channel % len(self.multiplier)] * x + self.offset[channel % len(self.offset)]
        whole = exact.numerator // exact.denominator
        rest = exact - whole
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
        return min(max(whole + up + self.zero_point, self.low), self.high)

    def steps(self) -> Steps:
        return steps(self.multiplier, self.offset, self.grid, self.first, self.last)

    def arguments(self) -> tuple[np.ndarray, np.ndarray]:
        """Every pair (channel, x)."""
        x = np.arange(self.first, self.last + 1)
        return np.repeat(np.arange(self.channels), len(x)), np.tile(x, self.channels)


powers_of_two = st.sampled_from([Fraction(1, 2**k) for k in range(12)])
"""Every step is a tie."""

divisors = st.sampled_from([Fraction(p, q) for p in (1, 3) for q in (6, 7, 9, 10, 12, 36, 49, 100, 96)])
"""Averages: ties for even divisors, at slopes that no shift hits."""

float_scales = st.builds(
    lambda a, b, c: Fraction(a) * Fraction(b) / Fraction(c),
    *[st.floats(2**-6, 2.0, width=32, allow_nan=False) for _ in range(3)],
)
"""Products and quotients of float32 scales, as in models."""


@st.composite
def formulas(draw: st.DrawFn, largest: int = 2000, channels: int = 3) -> Formula:
    """Any requantizer of arguments up to ``largest``; slopes and offsets reach both ends or neither."""
    scales = st.one_of(powers_of_two, divisors, float_scales, st.fractions(0, 40, max_denominator=99))
    halves = st.integers(-99, 99).map(lambda n: Fraction(n, 2))
    offsets = st.one_of(halves, st.fractions(-300, 300, max_denominator=64))
    several = [draw(st.sampled_from([1, channels])) for _ in range(2)]
    low, high = sorted(draw(st.tuples(st.integers(-128, 127), st.integers(-128, 127))))
    first, last = sorted(draw(st.tuples(st.integers(-largest, largest), st.integers(-largest, largest))))
    return Formula(
        tuple(draw(scales) for _ in range(several[0])),
        tuple(draw(offsets) for _ in range(several[1])),
        draw(st.integers(-128, 127)),
        low,
        high,
        first,
        last,
    )
