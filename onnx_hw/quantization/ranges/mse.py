"""MSE range: the range of a tensor with the least expected loss by rounding and by *expected* saturation.

A wider range rounds more coarsely, a narrower one saturates. How far new samples lie beyond the known ones is unknown;
it is estimated from the distances between the greatest numbers of the samples. The measure is the expected SQNR in dB,
not the noise: a rare sample that saturates costs little of it, and the less, the more noise all other tensors make. So
with few samples, many bits or many tensors, ranges are wider than the samples; with many samples, rare numbers are
clipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, factorial, log, sqrt

import numpy as np

FACTORS = np.array((0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0))
"""Tried ends of the range, relative to the ends of the samples."""

PRIOR_SPACINGS = 2
"""Weight of the prior in ``_apart``: the spacings of normally distributed ends count as this many measured ones."""

OTHER_TENSORS_NOISE = 4
"""Noise that every other tensor is assumed to add, relative to its rounding. Of the tried values (1, 4 and infinity) it
served best in repeated hold-out splits of samples.
"""

MAX_BEYOND = 6
"""Number of cases for how many new samples, 0 included, lie beyond an end; the chance of more is neglected."""

MAX_NUMBERS = 1 << 21
"""Greatest number of elements used, of all samples; of more, evenly spread ones and each sample's extremes."""


@dataclass(frozen=True)
class MseRange:
    """Range and the mean squares of the errors that it is expected to cost.

    Attributes:
        low, high: low ≤ 0 ≤ high.
        rounding, saturation: expected mean square errors.
    """

    low: float
    high: float
    rounding: float
    saturation: float


@dataclass(frozen=True)
class _Beyond:
    """Numbers beyond ``FACTORS`` times one end, for as large a set of new samples.

    Attributes:
        seen: (factors,) mean square by which the known samples lie beyond.
        chances: (MAX_BEYOND, factors) chance that 0, 1, 2 ... new samples lie beyond.
        square: mean square that each of them adds.
    """

    seen: np.ndarray
    chances: np.ndarray
    square: float

    @property
    def expected(self) -> np.ndarray:
        """Expected mean square, (factors,)."""
        expected: np.ndarray = self.seen + np.arange(MAX_BEYOND) @ self.chances * self.square
        return expected


def mse_range(samples: Sequence[np.ndarray], bits: int, *, tensors: int = 1, symmetric: bool = False) -> MseRange:
    """Return the MSE range for integers of a width.

    Args:
        samples: the tensor of each sample, finite numbers.
        bits: width of the integers.
        tensors: number of tensors of the network that get integers, this one included.
        symmetric: whether the range is symmetric about 0.
    """
    return mse_ranges(samples, (bits,), tensors=tensors, symmetric=symmetric)[bits]


def mse_ranges(
    samples: Sequence[np.ndarray], widths: Iterable[int], *, tensors: int = 1, symmetric: bool = False
) -> dict[int, MseRange]:
    """Return the MSE ranges for integers of several widths, by bits; arguments as in ``mse_range``."""
    numbers = sum(sample.size for sample in samples)
    flat = [values.astype(np.float64) for values in _thinned([sample.reshape(-1) for sample in samples])]
    if symmetric:
        flat = [np.abs(values) for values in flat]
    above, below = (np.array([max(float((s * values).max(initial=0.0)), 0.0) for values in flat]) for s in (1, -1))
    high, low = float(above.max(initial=0.0)), float(below.max(initial=0.0))
    if high + low == 0.0:
        return dict.fromkeys(widths, MseRange(0.0, 0.0, 0.0, 0.0))
    factors = FACTORS if len(flat) > 1 else np.ones(1)
    top, bottom = (_beyond(flat, ends, factors, sign, numbers) for ends, sign in ((above, 1), (below, -1)))
    size = (1 + symmetric) * (factors[:, None] * high + factors[None, :] * low)
    share = sum(np.count_nonzero(values) for values in flat) / sum(values.size for values in flat)  # 0 has an integer
    ranges = {}
    for bits in widths:
        rounding = share * (size / ((1 << bits) - 1)) ** 2 / 12
        others = (tensors - 1) * share * ((1 + symmetric) * (high + low) / ((1 << bits) - 1)) ** 2 / 12
        cost = _decibels(rounding + OTHER_TENSORS_NOISE * others, top, bottom)
        i, j = np.unravel_index(int(cost.argmin()), cost.shape)
        far = float(factors[i]) * high
        near = far if symmetric else float(factors[j]) * low
        ranges[bits] = MseRange(-near, far, float(rounding[i, j]), float(top.expected[i] + bottom.expected[j]))
    return ranges


def _decibels(rounding: np.ndarray, top: _Beyond, bottom: _Beyond) -> np.ndarray:
    """Return the expected logarithm of the noise, (factors, factors)."""
    certain, cost = rounding + top.seen[:, None] + bottom.seen[None, :], np.zeros_like(rounding)
    for i, of_top in enumerate(top.chances):
        for j, of_bottom in enumerate(bottom.chances):
            chance = of_top[:, None] * of_bottom[None, :]
            cost += chance * np.log(certain + i * top.square + j * bottom.square)
    return cost


def _thinned(samples: list[np.ndarray]) -> list[np.ndarray]:
    stride = -(-sum(values.size for values in samples) // MAX_NUMBERS)
    if stride <= 1:
        return samples
    return [np.concatenate([values[::stride], [values.min(), values.max()]]) for values in samples]


def _beyond(samples: Sequence[np.ndarray], ends: np.ndarray, factors: np.ndarray, sign: int, numbers: int) -> _Beyond:
    """Estimate what lies beyond one end.

    Args:
        samples: numbers of each sample.
        ends: (samples,) greatest number of each, times the sign.
        factors: tried ends, relative to the greatest number of all.
        sign: 1 for the upper end, -1 for the lower one.
        numbers: number of elements of all samples together.
    """
    high = float(ends.max())
    tail = np.concatenate([values[sign * values > high * factors[0]] for values in samples]) * sign
    seen = np.array([np.square(np.maximum(tail - high * factor, 0)).sum() for factor in factors])
    count, apart = len(ends), _apart(ends)
    if apart <= 0:
        chances = np.zeros((MAX_BEYOND, len(factors)))
        chances[0] = 1
    else:
        rate = count / (count + 1) * np.exp(-np.maximum(factors - 1, 0) * high / apart)
        chances = np.stack([np.exp(-rate) * rate**k / factorial(k) for k in range(MAX_BEYOND)])
    return _Beyond(seen / sum(values.size for values in samples), chances, 2 * apart**2 / numbers)


def _apart(ends: np.ndarray) -> float:
    """Estimate by how much a new sample that exceeds all others is expected to exceed them.

    The result is 0 where several samples have the very same end, which is a bound of the data.

    A new sample exceeds n others with the chance 1 / (n + 1), by as much as the greatest ones differ: their tail is
    assumed to be exponential. Few spacings are a poor estimate, so a prior is added: the spacing that normally
    distributed ends would have at their greatest, standard deviation / √(2 ln n).
    """
    ordered = np.sort(ends)[::-1]
    if len(ordered) < 2 or ordered[0] == ordered[1]:
        return 0.0
    count = min(ceil(sqrt(len(ordered))), len(ordered) - 1)
    spacing, normal = float(ordered[:count].mean() - ordered[count]), float(ends.std()) / sqrt(2 * log(len(ends)))
    return (count * spacing + PRIOR_SPACINGS * normal) / (count + PRIOR_SPACINGS)
