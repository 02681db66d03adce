"""Signal to quantization noise of arrays against the wanted ones, frame after frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MIN_POWER, MAX_POWER = (float(end) for end in (np.finfo(np.float64).tiny, np.finfo(np.float64).max))
"""Substitutes for a signal without power, and for sums that double precision cannot hold."""


@dataclass(frozen=True)
class NoiseStatistics:
    """Sums over all numbers that were compared. Numbers that are not finite are left out of the sums.

    Attributes:
        values: how many numbers were compared.
        equal: how many of them were the same.
        worst: the largest difference.
        signal: sum of the squares of the wanted numbers.
        noise: sum of the squares of the differences.
    """

    values: int = 0
    equal: int = 0
    worst: float = 0.0
    signal: float = 0.0
    noise: float = 0.0

    @property
    def sqnr_db(self) -> float | None:
        """Signal to noise ratio in decibels; None where nothing differs."""
        if not self.noise:
            return None
        return float(10 * np.log10(max(self.signal, MIN_POWER) / self.noise))

    def with_values(self, actual: np.ndarray, wanted: np.ndarray) -> NoiseStatistics:
        """Return the statistics with two further arrays of one shape."""
        a, b = (array.reshape(-1).astype(np.float64) for array in (actual, wanted))
        size, same = a.size, np.count_nonzero(a == b)
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            same += np.count_nonzero(np.isnan(a) & np.isnan(b))
            a, b = a[finite], b[finite]
        with np.errstate(over="ignore"):
            apart = np.abs(a - b)
            return NoiseStatistics(
                self.values + size,
                self.equal + int(same),
                min(max(self.worst, float(apart.max(initial=0.0))), MAX_POWER),
                min(self.signal + float((b**2).sum()), MAX_POWER),
                min(self.noise + float((apart**2).sum()), MAX_POWER),
            )
