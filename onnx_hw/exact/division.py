"""Quotients of integers, rounded half to even, and powers of e as integers."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np

MAX_EXACT_BITS = 62
"""Greatest width of numbers that are divided as int64."""


def rounded_quotient(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Return ``numerator / denominator`` rounded half to even; both integer arrays, int64 or object.

    Denominators must be positive.
    """
    quotient = numerator // denominator
    twice = 2 * (numerator - quotient * denominator)
    up = (twice > denominator) | ((twice == denominator) & (quotient % 2 == 1))
    return np.asarray(quotient + up)


def scaled_quotient(a: np.ndarray, b: np.ndarray, factor: Fraction) -> np.ndarray:
    """Return ``factor · a / b`` rounded half to even, exactly; int64 arrays that broadcast, all b positive."""
    greatest = max(
        int(np.abs(part).max(initial=1)).bit_length() + by.bit_length() + 1
        for part, by in ((a, abs(factor.numerator)), (b, factor.denominator))
    )
    kind = np.int64 if greatest <= MAX_EXACT_BITS else object
    numerator = np.asarray(a).astype(kind) * factor.numerator
    denominator = np.asarray(b).astype(kind) * factor.denominator
    return rounded_quotient(numerator, denominator)


def exponentials(step: Fraction, count: int, fraction_bits: int) -> np.ndarray:
    """Return ``2^fraction_bits · exp(−step · k)`` rounded to the nearest integer, for k from 0 to ``count`` − 1; int64.

    No value but the first lies on a tie, since exp of a rational other than 0 is irrational. Each is enclosed with more
    and more digits until the rounding is decided, so that no evaluator matters.

    Args:
        step: positive.
    """
    return np.array([_exponential(step * k, fraction_bits) for k in range(count)], dtype=np.int64)


def _exponential(exponent: Fraction, fraction_bits: int) -> int:
    if exponent > fraction_bits + 2:
        return 0  # exp(−x) < 2^−x
    digits = 40
    while True:
        context = Context(prec=digits)
        argument = context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
        power = Fraction(context.exp(argument)) * (1 << fraction_bits)
        # The argument and the power are each off by at most a unit in their last digit.
        error = power * (exponent + 2) / Fraction(10) ** (digits - 2)
        low, high = (int(bound + Fraction(1, 2)) for bound in (power - error, power + error))
        if low == high or not exponent:
            return high if exponent else 1 << fraction_bits
        digits *= 2
