"""The range for integers of a tensor that loses least: rounding and *expected* saturation.

A wider range rounds more coarsely, a narrower one saturates. What new samples hold beyond all of those there are,
nobody has seen; how far the greatest numbers of the samples lie apart says how far it may be. What counts is how many
decibels are expected, not how much noise: a rare sample that saturates spoils few of them, and the less, the more noise
all other tensors make. So with few samples, or many bits, or many tensors ranges are wider than what was seen; with
many samples what is rare is clipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, factorial, log, sqrt

import numpy as np

FACTORS = np.array((0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0))
"""Of the ends of what was seen, by which they are tried."""

BELIEF = 2
"""How many spacings the ends of normally distributed samples are worth, beside those that were seen."""

OTHERS = 4
"""Times the rounding of a tensor that every other one is taken to add to the noise. Of those tried (1, 4 and no end) it
served best where samples were divided anew, over and over, into those that teach and those that judge."""

COUNTED = 6
"""Of so many new samples, 0 included, that lie beyond an end the chance is counted; of more it is as good as none."""

MOST = 1 << 21
"""Elements that are looked at, of all samples; of more, evenly spread ones and each sample's extremes."""


@dataclass(frozen=True)
class MseRange:
    """A range and the mean squares that it is expected to cost.

    Attributes:
        low, high: low ≤ 0 ≤ high.
        rounding, saturation: mean square errors.
    """

    low: float
    high: float
    rounding: float
    saturation: float


@dataclass(frozen=True)
class _Beyond:
    """What lies beyond ``FACTORS`` times one end, in as many new samples as there are.

    Attributes:
        seen: (factors,) the mean square that the samples there are lie beyond.
        chances: (COUNTED, factors) that so many new samples lie beyond.
        square: the mean square that each of them adds.
    """

    seen: np.ndarray
    chances: np.ndarray
    square: float

    @property
    def expected(self) -> np.ndarray:
        """(factors,) the mean square."""
        expected: np.ndarray = self.seen + np.arange(COUNTED) @ self.chances * self.square
        return expected


def mse_range(samples: Sequence[np.ndarray], bits: int, *, tensors: int = 1, symmetric: bool = False) -> MseRange:
    """The range for integers of so many bits.

    Args:
        samples: what the tensor holds in each, finite numbers.
        tensors: of the network that get integers, this one too.
        symmetric: as far below 0 as above.
    """
    return mse_ranges(samples, (bits,), tensors=tensors, symmetric=symmetric)[bits]


def mse_ranges(
    samples: Sequence[np.ndarray], widths: Iterable[int], *, tensors: int = 1, symmetric: bool = False
) -> dict[int, MseRange]:
    """The ranges for integers of several widths, by bits; as ``mse_range``."""
    numbers = sum(sample.size for sample in samples)
    flat = _thinned([sample.reshape(-1).astype(np.float64) for sample in samples])
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
    found = {}
    for bits in widths:
        rounding = share * (size / ((1 << bits) - 1)) ** 2 / 12
        others = (tensors - 1) * share * ((1 + symmetric) * (high + low) / ((1 << bits) - 1)) ** 2 / 12
        cost = _decibels(rounding + OTHERS * others, top, bottom)
        i, j = np.unravel_index(int(cost.argmin()), cost.shape)
        far = float(factors[i]) * high
        near = far if symmetric else float(factors[j]) * low
        found[bits] = MseRange(-near, far, float(rounding[i, j]), float(top.expected[i] + bottom.expected[j]))
    return found


def _decibels(rounding: np.ndarray, top: _Beyond, bottom: _Beyond) -> np.ndarray:
    """(factors, factors) the mean of the noise's logarithm."""
    certain, cost = rounding + top.seen[:, None] + bottom.seen[None, :], np.zeros_like(rounding)
    for i, of_top in enumerate(top.chances):
        for j, of_bottom in enumerate(bottom.chances):
            chance = of_top[:, None] * of_bottom[None, :]
            cost += chance * np.log(certain + i * top.square + j * bottom.square)
    return cost


def _thinned(samples: list[np.ndarray]) -> list[np.ndarray]:
    stride = -(-sum(values.size for values in samples) // MOST)
    if stride <= 1:
        return samples
    return [np.concatenate([values[::stride], [values.min(), values.max()]]) for values in samples]


def _beyond(samples: Sequence[np.ndarray], ends: np.ndarray, factors: np.ndarray, sign: int, numbers: int) -> _Beyond:
    """Args:
    ends: (samples,) the greatest of each, times the sign.
    numbers: of all samples together.
    """
    high = float(ends.max())
    tail = np.concatenate([values[sign * values > high * factors[0]] for values in samples]) * sign
    seen = np.array([np.square(np.maximum(tail - high * factor, 0)).sum() for factor in factors])
    count, apart = len(ends), _apart(ends)
    if apart <= 0:
        chances = np.zeros((COUNTED, len(factors)))
        chances[0] = 1
    else:
        rate = count / (count + 1) * np.exp(-np.maximum(factors - 1, 0) * high / apart)
        chances = np.stack([np.exp(-rate) * rate**k / factorial(k) for k in range(COUNTED)])
    return _Beyond(seen / sum(values.size for values in samples), chances, 2 * apart**2 / numbers)


def _apart(ends: np.ndarray) -> float:
    """By how much a new sample that is greater than all others is expected to be greater; 0 where several have the very
    same end, which is a bound of the data.

    Of n samples a new one is the greatest with the chance 1 / (n + 1), by as much as the greatest ones differ: their
    tail is taken to be exponential. Few spacings are little to go by, so those that normally distributed ends would
    have at their greatest, standard deviation / √(2 ln n), count for some more.
    """
    ordered = np.sort(ends)[::-1]
    if len(ordered) < 2 or ordered[0] == ordered[1]:
        return 0.0
    count = min(ceil(sqrt(len(ordered))), len(ordered) - 1)
    spacing, normal = float(ordered[:count].mean() - ordered[count]), float(ends.std()) / sqrt(2 * log(len(ends)))
    return (count * spacing + BELIEF * normal) / (count + BELIEF)
