"""Choice of an exact sum of two tensors: of the weighted sums that are proven equal to it, the cheapest.

Small factors make a cheap adder, and a sum whose steps lie on no line: a search among thresholds follows it. The
factors of a line are longer, and nothing but a shift follows. Which is cheaper depends on the number of results.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from onnx_hw.exact.canonical_signed_digit import signed_digits
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.quantized_add import MAX_OPERAND_VALUES, WeightedSum, separate
from onnx_hw.exact.requantization import area, choose
from onnx_hw.exact.wide_quantized_add import Ranges, find_weighted_sum

LUTS_PER_BIT = 1.5
"""Look-up tables of an adder per bit of an operand: its carry chain is longer by the distance of the shifts."""


@lru_cache(maxsize=64)  # a model is checked, then built
def choose_weighted_sum(slopes: tuple[Fraction, Fraction], offset: Fraction, ranges: Ranges, grid: Grid) -> WeightedSum:
    """Return the cheapest weighted sum that is equal to the exact sum for every pair that can occur.

    Arguments as for ``quantized_add.separate``, but for the ranges: at most ``MAX_WIDE_OPERAND_VALUES`` integers each.

    Raises:
        ValueError: there is no exact sum in 61 bits, or a range is longer.
    """
    if any(last - first >= MAX_OPERAND_VALUES for first, last in ranges):
        return find_weighted_sum(slopes, offset, ranges, grid)
    separated = separate(slopes, offset, ranges, grid)
    try:
        line = find_weighted_sum(slopes, offset, ranges, grid)
    except ValueError:
        return separated
    if _luts(line, ranges) >= _luts(separated, ranges):
        return separated
    _prove_equal(line, separated, ranges)
    return line


def _luts(one: WeightedSum, ranges: Ranges) -> float:
    """Estimate the look-up tables of the adders and of what follows them."""
    bits = max((last - first).bit_length() for first, last in ranges)
    terms = sum(len(signed_digits(factor)) for factor in one.factors)
    return LUTS_PER_BIT * bits * (terms - 1) + area(choose(one.exact))


def _prove_equal(one: WeightedSum, other: WeightedSum, ranges: Ranges) -> None:
    """Compare two weighted sums for every pair (a, b)."""
    a, b = (np.arange(first, last + 1) for first, last in ranges)
    first, second = (w.exact(np.add.outer(w.factors[0] * a, w.factors[1] * b).reshape(-1, 1)) for w in (one, other))
    if not np.array_equal(first, second):
        raise AssertionError(f"two exact sums must be equal: factors {one.factors} and {other.factors}")
