"""Exact rational numbers: those that floats denote, and their common measure."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm

import numpy as np


class NotFinite(ValueError):
    """Error: a constant is NaN or infinite, so that no rational equals it."""


def check_finite(values: np.ndarray) -> None:
    """Raise ``NotFinite`` if one of some floats is NaN or infinite."""
    if not np.isfinite(np.asarray(values, dtype=np.float64)).all():
        raise NotFinite("constants must be finite, not NaN or infinite")


def fractions(values: np.ndarray) -> tuple[Fraction, ...]:
    """Return the exact rationals that floats denote, flattened; raise ``NotFinite`` for NaN or an infinity."""
    check_finite(values)
    return tuple(Fraction(float(value)) for value in np.asarray(values).reshape(-1))


def commensurable(numbers: tuple[Fraction, ...]) -> tuple[Fraction, np.ndarray]:
    """Return the greatest number of which all are multiples, and the multiples; object array where they are large."""
    distinct = set(numbers)
    parts = lcm(*(number.denominator for number in distinct))
    whole = {number: int(number * parts) for number in distinct}
    common = gcd(*whole.values())
    multiples = [whole[number] // common for number in numbers]
    return Fraction(common, parts), np.array(multiples, dtype=np.int64 if max(multiples) >> 40 == 0 else object)
