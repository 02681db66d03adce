"""How much alike two arrays of numbers are, frame after frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST, MOST = (float(end) for end in (np.finfo(np.float64).tiny, np.finfo(np.float64).max))
"""Take the place of a signal of no power, and of sums that double precision cannot hold."""


@dataclass(frozen=True)
class Likeness:
    """Sums over what was compared; numbers that are not finite count as differing, but not in the sums.

    Attributes:
        values, equal: how many were compared, and were the same.
        worst: the largest difference.
        signal, noise: sums of squares of the numbers that were wanted, and of the differences.
    """

    values: int = 0
    equal: int = 0
    worst: float = 0.0
    signal: float = 0.0
    noise: float = 0.0

    @property
    def sqnr_db(self) -> float | None:
        """Signal to noise in decibels; None where nothing differs."""
        if not self.noise:
            return None
        return float(10 * np.log10(max(self.signal, LEAST) / self.noise))

    def with_values(self, given: np.ndarray, wanted: np.ndarray) -> Likeness:
        """With two further arrays of one shape."""
        a, b = given.astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(over="ignore"):
            apart = np.abs(a[finite] - b[finite])
            return Likeness(
                self.values + a.size,
                self.equal + int(same.sum()),
                min(max(self.worst, float(apart.max(initial=0.0))), MOST),
                min(self.signal + float((b[finite] ** 2).sum()), MOST),
                min(self.noise + float((apart**2).sum()), MOST),
            )
