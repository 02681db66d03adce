"""The step of which all numbers seen are whole multiples: images of 8 bits and fixed-point data have one."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

STEPS = (Fraction(1), Fraction(1, 255), *(Fraction(1, 1 << k) for k in range(1, 15)))
"""The coarsest first; of 8-bit pixels as numbers of 0..1, and powers of two."""

MOST = (1 << 15) - 1
"""The multiples are integers of 16 bits."""

LAST_BITS = 2.0**-22
"""Of a multiple of 1/255: how far off float32 may leave it, divided or multiplied."""

FEW = 256
"""Most numbers are seen not to be multiples by the first of them."""


def common_steps(numbers: np.ndarray, candidates: Iterable[Fraction] = STEPS) -> tuple[Fraction, ...]:
    """Those of the candidates of which all numbers, finite ones, are multiples."""
    flat = numbers.reshape(-1)
    return tuple(step for step in candidates if _fits(flat[:FEW], step) and _fits(flat, step))


def _fits(numbers: np.ndarray, step: Fraction) -> bool:
    counted = numbers.astype(np.float64) * float(1 / step)
    whole = np.rint(counted)
    off = 0.0 if step.denominator & (step.denominator - 1) == 0 else LAST_BITS
    return bool((np.abs(whole) <= MOST).all() and (np.abs(counted - whole) <= off * np.abs(whole)).all())
