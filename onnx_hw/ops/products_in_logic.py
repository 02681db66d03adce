"""Products of look-up tables: how many each takes. The circuits are those of ``onnx_hw_rtl``."""

from __future__ import annotations

import numpy as np

from onnx_hw.exact.signed_digits import signed_digits


def look_up_tables(a_bits: int, b_bits: int) -> int:
    """Of a product of two integers that are not known: 72 for 8 × 8 bits.

    Rows of two bits of the narrower one, then a tree that adds them; an odd bit is no row, the chain that adds it does
    its ands. Carries come in pairs.
    """
    wide, narrow = max(a_bits, b_bits), min(a_bits, b_bits)
    parts = [min(2, narrow - low) for low in range(0, narrow, 2)]
    total = sum(_chain(wide + bits) for place, bits in enumerate(parts) if bits == 2 or not place)
    while len(parts) > 1:
        pairs = list(zip(parts[::2], parts[1::2], strict=False))
        total += sum(_chain(wide + high) for _, high in pairs)
        parts = [low + high for low, high in pairs] + parts[len(parts) // 2 * 2 :]
    return total


def look_up_tables_of_known(bits: int, constants: np.ndarray) -> int:
    """Of products by known integers: an adder for each digit beyond the first; one more where all are negative."""
    total = 0
    for constant, count in zip(*np.unique(constants, return_counts=True), strict=True):
        digits = signed_digits(int(constant))
        adders = len(digits) - 1 + all(sign < 0 for sign, _ in digits) if digits else 0
        total += int(count) * adders * _chain(bits + 2)
    return total


def _chain(bits: int) -> int:
    return bits + bits % 2
