"""Integer types: the only number format that a ``Network`` has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Int:
    """Two's complement (or unsigned) integer type of a fixed width."""

    bits: int
    signed: bool = True

    def __post_init__(self) -> None:
        if self.bits < 1:
            raise ValueError(f"an integer must have at least one bit, not {self.bits}")

    @property
    def min(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def max(self) -> int:
        return (1 << (self.bits - self.signed)) - 1

    @classmethod
    def holding(cls, low: int, high: int) -> Int:
        """Return the narrowest type that holds every integer of ``low..high``; unsigned if ``low`` is not negative."""
        if low > high:
            raise ValueError(f"the range {low}..{high} is empty")
        if low >= 0:
            return cls(max(1, high.bit_length()), signed=False)
        return cls(max((-low - 1).bit_length(), max(high, 0).bit_length()) + 1)

    def __repr__(self) -> str:
        return f"{'i' if self.signed else 'u'}{self.bits}"


def narrowed(integers: np.ndarray) -> np.ndarray:
    """Return integers in the narrowest signed dtype that holds them all.

    Sums of them are int64 again; before any other arithmetic they must be widened.
    """
    least, most = (int(integers.min()), int(integers.max())) if integers.size else (0, 0)
    bits = Int.holding(min(least, -1), max(most, 0)).bits
    return integers.astype(f"i{max(8, 1 << (bits - 1).bit_length()) // 8}", copy=False)
