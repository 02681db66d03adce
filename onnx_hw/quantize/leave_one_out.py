"""The range for integers of a tensor that loses least: rounding and *expected* saturation.

A wider range rounds more coarsely, a narrower one saturates. What a new sample would saturate is estimated by leaving
out one after the other of those there are: how far does it lie outside of what the others say? With few samples that
widens the range, with many it also clips what is rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FACTORS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)
"""Of the ends of what was seen, by which they are tried."""

WIDEST = 1.3
"""A tensor inside the network is not widened by more: what lies beyond is rare, and others make up for it."""

WIDEST_AT_OUTPUT = FACTORS[-1]
"""Of what leaves nothing makes up for a saturated value."""

MOST = 1 << 21
"""Elements that are looked at, of all samples; of more, evenly spread ones and each sample's extremes."""


@dataclass(frozen=True)
class Chosen:
    """A range and the mean squares that it is expected to cost.

    Attributes:
        low, high: low ≤ 0 ≤ high.
        rounding, saturation: mean square errors.
    """

    low: float
    high: float
    rounding: float
    saturation: float


def least_loss(samples: Sequence[np.ndarray], bits: int, widest: float = WIDEST, *, symmetric: bool = False) -> Chosen:
    """The range for integers of so many bits.

    Args:
        samples: what the tensor holds in each, finite numbers.
        widest: at most so many times what was seen.
        symmetric: as far below 0 as above.
    """
    flat = _thinned([sample.reshape(-1).astype(np.float64) for sample in samples])
    if symmetric:
        flat = [np.abs(values) for values in flat]
    above, below = (np.array([max(float((s * values).max(initial=0.0)), 0.0) for values in flat]) for s in (1, -1))
    high, low = float(above.max(initial=0.0)), float(below.max(initial=0.0))
    if high + low == 0.0:
        return Chosen(0.0, 0.0, 0.0, 0.0)
    factors = np.array([f for f in FACTORS if f <= widest and (len(flat) > 1 or f == 1)])
    saturated = [_saturation(flat, ends, factors, sign) for ends, sign in ((above, 1), (below, -1))]
    halves = 2 if symmetric else 1
    step = halves * (factors[:, None] * high + factors[None, :] * low) / ((1 << bits) - 1)
    count = sum(values.size for values in flat)
    share = sum(np.count_nonzero(values) for values in flat) / count  # 0 has an integer
    rounding = share * step**2 / 12
    cost = rounding + saturated[0][:, None] + saturated[1][None, :]
    i, j = np.unravel_index(int(cost.argmin()), cost.shape)
    top = float(factors[i]) * high
    bottom = top if symmetric else float(factors[j]) * low
    return Chosen(-bottom, top, float(rounding[i, j]), float(saturated[0][i] + saturated[1][j]))


def _thinned(samples: list[np.ndarray]) -> list[np.ndarray]:
    stride = -(-sum(values.size for values in samples) // MOST)
    if stride <= 1:
        return samples
    return [np.concatenate([values[::stride], [values.min(), values.max()]]) for values in samples]


def _saturation(samples: Sequence[np.ndarray], ends: np.ndarray, factors: np.ndarray, sign: int) -> np.ndarray:
    """(factors,) the mean square of what lies beyond ``factor`` times the end that the other samples have, and of what
    lies beyond as often the end of all: that is certain.

    Args:
        ends: (samples,) the greatest of each, times the sign.
    """
    estimated, seen = np.zeros(len(factors)), np.zeros(len(factors))
    largest = int(ends.argmax())
    high, second = float(ends[largest]), float(np.delete(ends, largest).max(initial=0.0))
    for number, values in enumerate(samples):
        tail = sign * values[sign * values > min(high, second) * factors[0]]
        others = second if number == largest and len(samples) > 1 else high
        for k, factor in enumerate(factors):
            estimated[k] += _beyond(tail, others * factor)
            seen[k] += _beyond(tail, high * factor)
    return (estimated + seen) / sum(values.size for values in samples)


def _beyond(values: np.ndarray, bound: float) -> float:
    """The sum of squares of what lies beyond a bound."""
    rest = values[values > bound] - bound
    return float(rest @ rest)
