"""Exact meaning of a requantizer: a monotone step function of an integer, held as its thresholds.

    y = grid.integer(slope·x + offset)          slope ≥ 0, offset rational; x, y integer

takes a step from below ``k`` to ``k`` or more at one integer ``T_k``, the least ``x`` with ``y ≥ k``. These
integers *are* the function: comparing anything monotone with it at every ``T_k`` and ``T_k − 1`` is a proof.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rounding import Rounding


@dataclass(frozen=True, eq=False)
class Steps:
    """Monotone step function per channel, from ``first..last`` onto ``low..high``.

    Attributes:
        first, last: the arguments that can occur.
        low, high: the values.
        thresholds: (channels, high − low) int64, ascending along a row: entry k − low − 1 is T_k, the least x with
            y ≥ k. ``first`` where every x has y ≥ k, ``last + 1`` where none has. One row may stand for all channels.
        parity: the parity (0 or 1) of the values k for which a tie at k − ½ stays below k: of ONNX's rounding, those
            that are an odd number of steps from the zero point.
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
        """Whether some x has y ≥ k: (channels, high − low) bool."""
        return self.thresholds <= self.last

    @property
    def missed(self) -> np.ndarray:
        """Whether some x has y < k: (channels, high − low) bool."""
        return self.thresholds > self.first

    @property
    def active_range(self) -> tuple[int, int]:
        """Range (least, greatest) of the arguments outside which no channel changes its value any more."""
        real = self.thresholds[self.reached & self.missed]
        if not real.size:
            return self.first, self.first
        return int(real.min()) - 1, int(real.max())

    def over(self, first: int, last: int) -> Steps:
        """Return the function for more arguments, which keep the value of the nearest of those before."""
        if self.first <= first and last <= self.last:
            return self
        first, last = min(first, self.first), max(last, self.last)
        thresholds = np.where(self.reached, self.thresholds, last + 1)
        return replace(self, first=first, last=last, thresholds=np.where(self.missed, thresholds, first))

    def onto(self, low: int, high: int) -> Steps:
        """Return the same function among more values, which no argument takes."""
        if low >= self.low and high <= self.high:
            return self
        low, high = min(low, self.low), max(high, self.high)
        below = np.full((self.channels, self.low - low), self.first, dtype=self.thresholds.dtype)
        above = np.full((self.channels, high - self.high), self.last + 1, dtype=self.thresholds.dtype)
        return replace(self, low=low, high=high, thresholds=np.concatenate([below, self.thresholds, above], axis=1))

    def after(self, first: Steps) -> Steps:
        """Return the function of the values of another one, for the arguments of that one."""
        channels = max(self.channels, first.channels)
        least = np.broadcast_to(self.thresholds, (channels, self.thresholds.shape[1]))
        ends = np.array([[first.first, first.last + 1]] * first.channels)
        reaches = np.concatenate([ends[:, :1], first.thresholds, ends[:, 1:]], axis=1)  # the least x for each value
        places = np.clip(least - first.low, 0, reaches.shape[1] - 1)
        thresholds = np.take_along_axis(np.broadcast_to(reaches, (channels, reaches.shape[1])), places, axis=1)
        return replace(self, first=first.first, last=first.last, thresholds=thresholds)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return the int64 values of integers (..., channels); any shape, when one function serves all channels."""
        if self.channels == 1:
            return self.low + np.searchsorted(self.thresholds[0], x, side="right").astype(np.int64)
        columns = np.ascontiguousarray(x.reshape(-1, x.shape[-1]).T)
        y = np.empty_like(columns, dtype=np.int64)
        for row, thresholds, column in zip(y, self.thresholds, columns, strict=True):
            row[:] = np.searchsorted(thresholds, column, side="right")
        return (y.T + self.low).reshape(x.shape)

    def witnesses(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the arguments (channel, x), two int64 vectors, at which equality of a monotone function is a proof.

        They are both ends of the range and the two sides of every threshold, of every channel.
        """
        inner = np.concatenate([self.thresholds, self.thresholds - 1], axis=1)
        ends = np.broadcast_to(np.array([self.first, self.last]), (self.channels, 2))
        x = np.clip(np.concatenate([inner, ends], axis=1), self.first, self.last)
        channel = np.broadcast_to(np.arange(self.channels)[:, np.newaxis], x.shape)
        return channel.ravel(), x.ravel()

    def every_argument(self, clamp: Int) -> tuple[np.ndarray, np.ndarray]:
        """Return all arguments (channel, x) within a type, and both ends of the range, as two int64 vectors."""
        inner = np.arange(max(self.first, clamp.min), min(self.last, clamp.max) + 1)
        x = np.concatenate([inner, [self.first, self.last]])
        return np.repeat(np.arange(self.channels), len(x)), np.tile(x, self.channels)

    def at(self, channel: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the values at pairs (channel, x), int64."""
        y = np.empty(x.shape, dtype=np.int64)
        order = np.argsort(channel, kind="stable")
        ends = np.searchsorted(channel[order], np.arange(1, self.channels))
        for thresholds, here in zip(self.thresholds, np.split(order, ends), strict=True):
            y[here] = self.low + np.searchsorted(thresholds, x[here], side="right")
        return y


def steps(slope: Sequence[Fraction], offset: Sequence[Fraction], grid: Grid, first: int, last: int) -> Steps:
    """Compute the step functions of ``grid.integer(slope·x + offset)`` for x in ``first..last``.

    ``slope`` and ``offset`` have one entry, or one per channel, like the grid; slopes must not be negative.
    """
    channels = max(len(slope), len(offset), grid.channels)
    slopes, offsets = (list(v) * (channels if len(v) == 1 else 1) for v in (slope, offset))
    rows = []
    for channel, (rise, start) in enumerate(zip(slopes, offsets, strict=True)):
        k = channel % grid.channels
        rows.append(_thresholds(rise / grid.step[k % len(grid.step)], grid.position(start, k), grid, k, first, last))
    thresholds = np.stack(rows).reshape(channels, grid.high - grid.low)
    return Steps(first, last, grid.low, grid.high, thresholds, grid.rounding.parity(grid.zeros[0]))


def _thresholds(slope: Fraction, offset: Fraction, grid: Grid, channel: int, first: int, last: int) -> np.ndarray:
    """Return the least x in ``first..last + 1`` at which slope·x + offset rounds to k or more, for every k; int64."""
    if slope < 0:
        raise ValueError(f"a requantizer's slope must not be negative, not {slope}")
    zero, levels = grid.zeros[channel], range(grid.low + 1, grid.high + 1)
    if slope == 0:
        row = np.full(len(levels), last + 1, dtype=np.int64)
        row[: max(0, grid.rounding.integer(offset, zero) - grid.low)] = first
        return row
    parts = [levels]
    if grid.rounding.is_signed and 0 in range(grid.low, grid.high + 1):
        parts = [levels[: -grid.low], levels[-grid.low :]]
    rows = [_reached(slope, offset, grid.rounding, zero, part, first, last) for part in parts]
    return np.concatenate(rows)


def _reached(
    slope: Fraction, offset: Fraction, rounding: Rounding, zero: int, levels: range, first: int, last: int
) -> np.ndarray:
    """Return the thresholds of levels whose edges all lie h halves below them, 2k − h.

    slope·x + offset reaches the edge of k where x = (k − h/2 − offset)/slope; the least integer is its ceiling, or one
    more where x is an integer and the edge does not belong to k (of a tie: where k is odd).
    """
    row = np.full(len(levels), last + 1, dtype=np.int64)
    if not levels:
        return row
    halves = rounding.halves_below(levels.start)
    # x = (2k − h − 2·offset) / (2·slope) over one denominator, so that all is pure integers
    numerator, scale = offset.denominator * slope.denominator, 2 * slope.numerator * offset.denominator
    constant = 2 * offset.numerator * slope.denominator

    def exactly(k: int) -> int:
        whole, rest = divmod((2 * k - halves) * numerator - constant, scale)
        return whole + (1 if rest or not rounding.takes_edge(k, zero) else 0)

    reach = bisect_right(levels, first, key=exactly)
    row[:reach] = first
    inside = levels[reach : bisect_right(levels, last, key=exactly)]
    if inside:
        row[reach : reach + len(inside)] = _consecutive_thresholds(
            inside, 2 * numerator, halves * numerator + constant, scale, exactly
        )
    return row


def _consecutive_thresholds(
    levels: range, numerator: int, constant: int, scale: int, exactly: Callable[[int], int]
) -> np.ndarray:
    """Compute ``exactly`` of consecutive levels, ⌊(numerator·k − constant)/scale⌋ and one more, mostly in fixed point.

    Fixed point is used where it is certain: the quotient, rounded down, is less than one unit too small at the first
    level and another at each step.
    """
    start, base = numerator * levels.start - constant, exactly(levels.start)
    count, span = np.arange(len(levels)), exactly(levels[-1]) - base
    bits = 61 - (span + 2).bit_length()
    if bits < 1 or len(levels) == 1:
        return np.array([exactly(k) for k in levels], dtype=np.int64)
    least = (numerator << bits) // scale * count + ((start - (base - 1) * scale) << bits) // scale
    rest, unsure = least & ((1 << bits) - 1), count + 2
    row = (least >> bits) + base
    for position in np.flatnonzero((rest == 0) | (rest + unsure >= 1 << bits)).tolist():
        row[position] = exactly(levels[position])
    return row
