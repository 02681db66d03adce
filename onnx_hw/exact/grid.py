"""Grid of a tensor: the real numbers that its integers stand for, and the rounding of the numbers in between.

    real = step · (integer − zero point)        integer = clamp(round(real / step + zero point), low, high)

Steps and zero points are exact: a scale that a model stores in float32 is a fraction, a bipolar value (−1 or 1, in one
bit) has the step 2 and the zero point ½.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import floor, isinf

import numpy as np
from numpy.typing import DTypeLike

from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding import Rounding

Number = Fraction | int


BLOCK = 1 << 20
"""Number of floats that are rounded at once where there are many: rounding takes some 40 bytes for each."""


@dataclass(frozen=True)
class Grid:
    """Grid of real numbers that integers stand for.

    Attributes:
        step: distance of two numbers, positive; one, or one per channel.
        zero_point: the place of the number 0 among the integers; one, or one per channel.
        low, high: the least and the greatest integer that is used.
        dtype: the type of the integers, which may hold others.
        rounding: the rounding of numbers between two of the grid.
    """

    step: tuple[Fraction, ...]
    zero_point: tuple[Fraction, ...]
    low: int
    high: int
    dtype: Int
    rounding: Rounding = Rounding.HALF_EVEN

    def __post_init__(self) -> None:
        if not all(step > 0 for step in self.step):
            raise ValueError(f"a step must be positive, not {min(self.step)}")
        if not self.dtype.min <= self.low <= self.high <= self.dtype.max:
            raise ValueError(f"the range {self.low}..{self.high} must lie within {self.dtype!r}")
        counts = {len(self.step), len(self.zero_point)} - {1}
        if 0 in counts or len(counts) > 1:
            raise ValueError(f"the numbers of steps and of zero points must be equal, or 1, not {sorted(counts)}")

    @classmethod
    def over(
        cls,
        dtype: Int,
        step: Number | Sequence[Number] = 1,
        zero_point: Number | Sequence[Number] = 0,
        rounding: Rounding = Rounding.HALF_EVEN,
    ) -> Grid:
        """Return the grid that uses all integers of a type."""
        steps, zeros = (v if isinstance(v, Sequence) else (v,) for v in (step, zero_point))
        return cls(tuple(map(Fraction, steps)), tuple(map(Fraction, zeros)), dtype.min, dtype.max, dtype, rounding)

    def within(self, low: int, high: int) -> Grid:
        """Return the grid with other least and greatest integers."""
        return replace(self, low=low, high=high)

    @property
    def bits(self) -> int:
        return self.dtype.bits

    @property
    def channels(self) -> int:
        """Number of grids: one, or one per channel."""
        return max(len(self.step), len(self.zero_point))

    @cached_property
    def zeros(self) -> tuple[int, ...]:
        """Zero points, rounded down, from which rounding counts; one per step or zero point."""
        return tuple(floor(zero) for zero in self._wide(self.zero_point))

    def lines(self) -> list[tuple[Fraction, Fraction]]:
        """Return (slope, offset) of real = slope · integer + offset; one pair, or one per channel."""
        return [(step, -step * zero) for step, zero in zip(*map(self._wide, (self.step, self.zero_point)), strict=True)]

    def position(self, number: Fraction, channel: int = 0) -> Fraction:
        """Return the place of a real number among the integers."""
        return number / self._wide(self.step)[channel] + self._wide(self.zero_point)[channel]

    def integer(self, number: Fraction | float, channel: int = 0) -> int:
        """Return the integer that stands for a real number, which may be infinite."""
        if isinstance(number, float) and isinf(number):
            return self.high if number > 0 else self.low
        rounded = self.rounding.integer(self.position(Fraction(number), channel), self.zeros[channel])
        return min(max(rounded, self.low), self.high)

    def real(self, integer: int, channel: int = 0) -> Fraction:
        """Return the real number that an integer stands for."""
        slope, offset = self.lines()[channel]
        return slope * integer + offset

    def integers(self, numbers: np.ndarray, axis: int = 0, dtype: DTypeLike = np.int64) -> np.ndarray:
        """Return the integers that stand for floats, none of them NaN.

        They are divided by the step in their own type, as QuantizeLinear does; everything else is exact. Many floats
        are rounded block by block.

        Args:
            axis: the axis of the channels.
            dtype: dtype of the result, which holds all integers of the grid.
        """
        if numbers.size <= BLOCK:
            return self._rounded(numbers, axis).astype(dtype, copy=False)
        integers, rows = np.empty(numbers.shape, dtype), max(1, BLOCK * len(numbers) // numbers.size)
        for start in range(0, len(numbers), rows):
            part = slice(start, start + rows)
            grid = self._of_channels(part) if axis == 0 else self
            integers[part] = grid._rounded(numbers[part], axis)
        return integers

    def _rounded(self, numbers: np.ndarray, axis: int) -> np.ndarray:
        """Return the integers, int64, of floats that are rounded at once."""
        along = [-1 if k == axis else 1 for k in range(numbers.ndim)] if self.channels > 1 else ()
        step = np.array([float(s) for s in self._wide(self.step)]).astype(numbers.dtype).reshape(along)
        zero = np.array(self.zeros).reshape(along)
        rest = np.array([float(z - w) for z, w in zip(self._wide(self.zero_point), self.zeros, strict=True)])
        with np.errstate(over="ignore"):
            counted = numbers / step + rest.astype(numbers.dtype).reshape(along)
        bounded = np.clip(counted, self.low - zero - 1.0, self.high - zero + 1.0).astype(numbers.dtype, copy=False)
        return np.clip(self.rounding.integers(bounded, zero), self.low, self.high)

    def _of_channels(self, part: slice) -> Grid:
        """Return the grids of some channels."""
        step, zero_point = (v if len(v) == 1 else v[part] for v in (self.step, self.zero_point))
        return replace(self, step=step, zero_point=zero_point)

    def clipped(self, low: Fraction | float, high: Fraction | float) -> Grid:
        """Return the grid of numbers that are clipped first; it has their bounds.

        A clip commutes with rounding, which is monotone: a bound is rounded like everything else.
        """
        if self.channels > 1:
            raise ValueError("numbers with a grid per channel have no common bounds")
        return self.within(self.integer(low), self.integer(high))

    def _wide(self, numbers: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
        return numbers * self.channels if len(numbers) == 1 else numbers

    def __repr__(self) -> str:
        step, zero = (_spelled(numbers) for numbers in (self.step, self.zero_point))
        return f"{self.low}..{self.high} as {self.dtype!r}, step {step}, zero point {zero}"


def _spelled(numbers: tuple[Fraction, ...]) -> str:
    first = ", ".join(f"{float(number):g}" for number in numbers[:3])
    return f"{first} ... of {len(numbers)} channels" if len(numbers) > 3 else first
