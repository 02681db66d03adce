"""The exact meaning of a requantizer: a monotone step function of an integer, held as its thresholds.

    y = clamp(rhe(M·x + B) + z, low, high)          rhe: round half to even; M ≥ 0, B rational; x, y, z integer

takes a step from below ``k`` to ``k`` or more at one integer ``T_k``, the least ``x`` with ``y ≥ k``. These
integers *are* the function: comparing anything monotone with it at every ``T_k`` and ``T_k − 1`` is a proof.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_hw.exact.integers import Int

__all__ = ["Steps", "round_half_even", "steps"]


def round_half_even(value: Fraction) -> int:
    """The nearest integer; the even one of two."""
    return round(value)


@dataclass(frozen=True, eq=False)
class Steps:
    """A monotone step function per channel, from ``first..last`` onto ``low..high``.

    Attributes:
        first, last: the arguments that can occur.
        low, high: the values.
        thresholds: (channels, high − low) int64, ascending along a row: entry k − low − 1 is T_k, the least x with
            y ≥ k. ``first`` where every x has y ≥ k, ``last + 1`` where none has. One row may stand for all channels.
        parity: the parity (0 or 1) of the values k for which a tie at k − ½ stays below k: those that are odd before
            the zero point is added.
    """

    first: int
    last: int
    low: int
    high: int
    thresholds: np.ndarray
    parity: int = 1

    @property
    def channels(self) -> int:
        """Number of different functions: the rows of ``thresholds``."""
        return len(self.thresholds)

    @property
    def reached(self) -> np.ndarray:
        """(channels, high − low) bool: some x has y ≥ k."""
        return self.thresholds <= self.last

    @property
    def missed(self) -> np.ndarray:
        """(channels, high − low) bool: some x has y < k."""
        return self.thresholds > self.first

    @property
    def busy(self) -> tuple[int, int]:
        """The arguments (least, greatest) outside which no channel changes its value any more."""
        real = self.thresholds[self.reached & self.missed]
        if not real.size:
            return self.first, self.first
        return int(real.min()) - 1, int(real.max())

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Values of integers (..., channels) or, when one function serves all channels, of any shape; int64."""
        if self.channels == 1:
            return self.low + np.searchsorted(self.thresholds[0], x, side="right").astype(np.int64)
        columns = np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T)
        y = np.empty_like(columns, dtype=np.int64)
        for row, thresholds, column in zip(y, self.thresholds, columns, strict=True):
            row[:] = np.searchsorted(thresholds, column, side="right")
        return (y.T + self.low).reshape(x.shape)

    def witnesses(self) -> tuple[np.ndarray, np.ndarray]:
        """The arguments (channel, x), two int64 vectors, at which equality of a monotone function is a proof.

        They are both ends of the range and the two sides of every threshold, of every channel.
        """
        inner = np.concatenate([self.thresholds, self.thresholds - 1], axis=1)
        ends = np.broadcast_to(np.array([self.first, self.last]), (self.channels, 2))
        x = np.clip(np.concatenate([inner, ends], axis=1), self.first, self.last)
        channel = np.broadcast_to(np.arange(self.channels)[:, np.newaxis], x.shape)
        return channel.ravel(), x.ravel()

    def every_argument(self, clamp: Int) -> tuple[np.ndarray, np.ndarray]:
        """All arguments (channel, x) within a type, and both ends of the range, as two int64 vectors."""
        inner = np.arange(max(self.first, clamp.min), min(self.last, clamp.max) + 1)
        x = np.concatenate([inner, [self.first, self.last]])
        return np.repeat(np.arange(self.channels), len(x)), np.tile(x, self.channels)

    def at(self, channel: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Values at pairs (channel, x), int64."""
        y = np.empty(x.shape, dtype=np.int64)
        order = np.argsort(channel, kind="stable")
        ends = np.searchsorted(channel[order], np.arange(1, self.channels))
        for thresholds, here in zip(self.thresholds, np.split(order, ends), strict=True):
            y[here] = self.low + np.searchsorted(thresholds, x[here], side="right")
        return y


def steps(
    multiplier: Sequence[Fraction],
    offset: Sequence[Fraction],
    *,
    zero_point: int,
    low: int,
    high: int,
    first: int,
    last: int,
) -> Steps:
    """The step functions of ``clamp(rhe(multiplier·x + offset) + zero_point, low, high)`` for x in ``first..last``.

    ``multiplier`` and ``offset`` have one entry, or one per channel; multipliers must not be negative.
    """
    channels = max(len(multiplier), len(offset))
    slopes = list(multiplier) * (channels if len(multiplier) == 1 else 1)
    offsets = list(offset) * (channels if len(offset) == 1 else 1)
    rows = [
        _thresholds(slope, shift, range(low + 1 - zero_point, high + 1 - zero_point), first, last)
        for slope, shift in zip(slopes, offsets, strict=True)
    ]
    thresholds = np.stack(rows).reshape(channels, high - low)
    return Steps(first, last, low, high, thresholds, parity=(1 + zero_point) % 2)


def _thresholds(slope: Fraction, offset: Fraction, levels: range, first: int, last: int) -> np.ndarray:
    """The least x in ``first..last + 1`` with rhe(slope·x + offset) ≥ k, for every k of ``levels``; int64.

    rhe(v) ≥ k exactly if v > k − ½, or v = k − ½ and k is even; so x = (k − ½ − offset)/slope decides, and the least
    integer is its ceiling, or one more where x is an integer (a tie) and k is odd.
    """
    if slope < 0:
        raise ValueError(f"a requantizer's multiplier must not be negative, not {slope}")
    row = np.full(len(levels), last + 1, dtype=np.int64)
    if slope == 0:
        constant = round_half_even(offset)
        row[: max(0, constant - levels.start + 1)] = first
        return row
    # x = (2k − 1 − 2·offset) / (2·slope) over one denominator, so that all is pure integers
    numerator, scale = offset.denominator * slope.denominator, 2 * slope.numerator * offset.denominator
    constant = 2 * offset.numerator * slope.denominator

    def exactly(k: int) -> int:
        whole, rest = divmod((2 * k - 1) * numerator - constant, scale)
        return whole + (1 if rest or k % 2 else 0)

    reach = bisect_right(levels, first, key=exactly)
    row[:reach] = first
    inside = levels[reach : bisect_right(levels, last, key=exactly)]
    if inside:
        row[reach : reach + len(inside)] = _inside(inside, 2 * numerator, numerator + constant, scale, exactly)
    return row


def _inside(levels: range, numerator: int, constant: int, scale: int, exactly: Callable[[int], int]) -> np.ndarray:
    """``exactly`` of consecutive levels, ⌊(numerator·k − constant)/scale⌋ and one more, in fixed point where that is
    certain: the quotient, rounded down, is less than one unit too small at the first level and another at each step.
    """
    start, base = numerator * levels.start - constant, exactly(levels.start)
    count, span = np.arange(len(levels)), exactly(levels[-1]) - base
    bits = 61 - (span + 2).bit_length()
    if bits < 1 or len(levels) == 1:
        return np.array([exactly(k) for k in levels], dtype=np.int64)
    least = (numerator << bits) // scale * count + ((start - (base - 1) * scale) << bits) // scale
    rest, unsure = least & ((1 << bits) - 1), count + 2
    row = (least >> bits) + base
    for place in np.flatnonzero((rest == 0) | (rest + unsure >= 1 << bits)).tolist():
        row[place] = exactly(levels[place])
    return row
