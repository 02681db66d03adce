"""Inverse square roots of integers: a number with its own exponent."""

from __future__ import annotations

from math import isqrt

import numpy as np


def half_bits(number: int) -> int:
    """Return h with 4^(h − 1) ≤ ``number`` < 4^h, for a positive number."""
    return (number.bit_length() + 1) // 2


def inverse_root(number: int, mantissa_bits: int) -> tuple[int, int]:
    """Return (r, f) with r = 2^f / √number, rounded, and 2^(mantissa_bits − 1) ≤ r ≤ 2^mantissa_bits.

    f = mantissa_bits − 1 + h with 4^(h − 1) ≤ number < 4^h. r is decided by integers: (2·r − 1)²·number ≤ 2^(2·f + 2)
    ≤ (2·r + 1)²·number. No number lies on a tie, since 4^(f + 1) is no multiple of an odd square greater than 1.
    """
    exponent = mantissa_bits - 1 + half_bits(number)
    below = isqrt((1 << 2 * exponent) // number)
    return below + ((2 * below + 1) ** 2 * number < 1 << 2 * exponent + 2), exponent


def inverse_roots(numbers: np.ndarray, mantissa_bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return r and h of integers, object or int64; 2^(mantissa_bits − 1) and 1 for 0, whose root has no inverse.

    h is that of ``half_bits``; both results are int64, in the shape of the numbers.
    """
    known: dict[int, tuple[int, int]] = {0: (1 << mantissa_bits - 1, 1)}
    for number in set(numbers.reshape(-1).tolist()) - {0}:
        root, exponent = inverse_root(number, mantissa_bits)
        known[number] = root, exponent - mantissa_bits + 1
    pairs = np.array([known[number] for number in numbers.reshape(-1).tolist()], dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0].reshape(numbers.shape), pairs[:, 1].reshape(numbers.shape)
