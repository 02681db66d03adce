"""The range for integers of a tensor that loses least: rounding and *expected* saturation.

A wider range rounds more coarsely, a narrower one saturates. What a new sample would saturate is estimated by leaving
out one after the other of those there are: how far does it lie outside of what the others say? And beyond all of them:
how far do the greatest lie apart? With few samples that widens the range, and with many bits, since then it costs
little; with many samples it also clips what is rare.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

FACTORS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0)
"""Of the ends of what was seen, by which they are tried."""

WIDEST = 1.3
"""A tensor inside the network is not widened by more: what lies beyond is rare, and others make up for it."""

FEW, WIDEST_OF_FEW = 256, 1.75
"""Where a sample has no more numbers, none is rare."""

ROOM = 0.25
"""Of every bit above eight so much is room: they are widened by 2^ROOM more."""

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


def least_loss(samples: Sequence[np.ndarray], bits: int, *, inside: bool = True, symmetric: bool = False) -> Chosen:
    """The range for integers of so many bits.

    Args:
        samples: what the tensor holds in each, finite numbers.
        inside: it lies inside the network.
        symmetric: as far below 0 as above.
    """
    return least_losses(samples, (bits,), inside=inside, symmetric=symmetric)[bits]


def least_losses(
    samples: Sequence[np.ndarray], widths: Iterable[int], *, inside: bool = True, symmetric: bool = False
) -> dict[int, Chosen]:
    """The ranges for integers of several widths, by bits; as ``least_loss``."""
    flat = _thinned([sample.reshape(-1).astype(np.float64) for sample in samples])
    if symmetric:
        flat = [np.abs(values) for values in flat]
    above, below = (np.array([max(float((s * values).max(initial=0.0)), 0.0) for values in flat]) for s in (1, -1))
    high, low = float(above.max(initial=0.0)), float(below.max(initial=0.0))
    if high + low == 0.0:
        return dict.fromkeys(widths, Chosen(0.0, 0.0, 0.0, 0.0))
    factors = np.array([f for f in FACTORS if len(flat) > 1 or f == 1])
    saturated = [_saturation(flat, ends, factors, sign, beyond=inside) for ends, sign in ((above, 1), (below, -1))]
    size = (1 + symmetric) * (factors[:, None] * high + factors[None, :] * low)
    share = sum(np.count_nonzero(values) for values in flat) / sum(values.size for values in flat)  # 0 has an integer
    found = {}
    for bits in widths:
        most = max(1.0, widest_inside(bits, samples[0].size) if inside else WIDEST_AT_OUTPUT)
        rounding = share * (size / ((1 << bits) - 1)) ** 2 / 12
        cost = rounding + saturated[0][:, None] + saturated[1][None, :]
        cost[factors > most] = cost[:, factors > most] = np.inf
        i, j = np.unravel_index(int(cost.argmin()), cost.shape)
        top = float(factors[i]) * high
        bottom = top if symmetric else float(factors[j]) * low
        found[bits] = Chosen(-bottom, top, float(rounding[i, j]), float(saturated[0][i] + saturated[1][j]))
    return found


def widest_inside(bits: int, numbers: int) -> float:
    """By what a tensor inside the network is widened at most, of so many numbers a sample."""
    usual = WIDEST_OF_FEW if numbers <= FEW else WIDEST
    return float(usual * 2 ** (ROOM * max(0, bits - 8)))


def _thinned(samples: list[np.ndarray]) -> list[np.ndarray]:
    stride = -(-sum(values.size for values in samples) // MOST)
    if stride <= 1:
        return samples
    return [np.concatenate([values[::stride], [values.min(), values.max()]]) for values in samples]


def _saturation(
    samples: Sequence[np.ndarray], ends: np.ndarray, factors: np.ndarray, sign: int, *, beyond: bool
) -> np.ndarray:
    """(factors,) the mean square of what lies beyond ``factor`` times the end that the other samples have, and of what
    lies beyond as often the end of all: that is certain.

    Args:
        ends: (samples,) the greatest of each, times the sign.
        beyond: with what may lie beyond all of them.
    """
    estimated, seen = np.zeros(len(factors)), np.zeros(len(factors))
    rare = _beyond_all(ends, factors) * len(samples) * beyond
    largest = int(ends.argmax())
    high, second = float(ends[largest]), float(np.delete(ends, largest).max(initial=0.0))
    for number, values in enumerate(samples):
        tail = sign * values[sign * values > min(high, second) * factors[0]]
        others = second if number == largest and len(samples) > 1 else high
        for k, factor in enumerate(factors):
            estimated[k] += _beyond(tail, others * factor)
            seen[k] += _beyond(tail, high * factor)
    more = np.maximum(rare - np.minimum(estimated, estimated[factors == 1]), 0)  # than those that were left out say
    return (estimated + more + seen) / sum(values.size for values in samples)


def _beyond_all(ends: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """(factors,) the square by which a number of a new sample is expected to lie beyond ``factor`` times the greatest
    end of all; for factors below 1 as for 1, since of the rest the samples tell.

    Of so many samples a new one is the greatest with the chance 1 / (samples + 1), by as much as the greatest ones
    differ: their tail is taken to be exponential. Where several have the very same end it is a bound of the data.
    """
    ordered = np.sort(ends)[::-1]
    if len(ordered) < 2 or ordered[0] == ordered[1]:
        return np.zeros(len(factors))
    count = min(ceil(sqrt(len(ordered))), len(ordered) - 1)
    apart = float(ordered[:count].mean() - ordered[count])
    return 2 * apart**2 * np.exp(-np.maximum(factors - 1, 0) * ordered[0] / apart) / (len(ordered) + 1)


def _beyond(values: np.ndarray, bound: float) -> float:
    """The sum of squares of what lies beyond a bound."""
    rest = values[values > bound] - bound
    return float(rest @ rest)
