"""Product of integer matrices, exact, by the fast product of floats where that is enough."""

from __future__ import annotations

import numpy as np

EXACT_IN_FLOAT64 = 1 << 53

BLOCK = 1 << 19
"""Numbers that are converted at once: the windows of a large image are not copied as a whole."""


def matrix_product(vectors: np.ndarray, weights: np.ndarray, bound: int) -> np.ndarray:
    """Return ``vectors @ weights``, (stack, rows, outputs) int64.

    Args:
        vectors: (stack, rows, inputs) int64.
        weights: (stack, inputs, outputs), integers.
        bound: what no partial sum exceeds; below 2^53 float64 is exact.
    """
    number = np.float64 if bound < EXACT_IN_FLOAT64 else np.int64
    factors = weights.astype(number)
    product = np.empty((*vectors.shape[:2], weights.shape[2]), dtype=np.int64)
    rows = max(1, BLOCK // vectors.shape[2])
    for first in range(0, vectors.shape[1], rows):
        product[:, first : first + rows] = vectors[:, first : first + rows].astype(number) @ factors
    return product
