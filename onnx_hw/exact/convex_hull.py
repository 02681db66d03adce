"""Corners of a convex hull: the few of very many linear constraints that may bind.

For a value k the constraints on a multiplier m and an addend are lines in m, ``k·2^S − T_k·m`` at least, and at most
one step of x less, to which every second k adds the same number. The highest of lines is one whose (T_k, k) is a corner
of the hull of all points, seen from above; the lowest one, seen from below. A rounded straight line has few corners: of
65,535 values some dozens.
"""

from __future__ import annotations

import numpy as np

MAX_PASSES = 200
"""Number of passes. Each one leaves out points; those that are left afterwards do no harm."""

MAX_PRODUCT_BITS = 62
"""Greatest width of the products that are compared, in bits."""


def corners(thresholds: np.ndarray, odd: np.ndarray, reached: np.ndarray, missed: np.ndarray) -> np.ndarray:
    """Return for every channel the columns whose constraints may bind, ascending: int64[channels, columns].

    A shorter row is filled up with its last column, all of them with column 0 where the channel has no column.

    Args:
        thresholds, reached, missed: (channels, values); thresholds ascend.
        odd: (values,) bool, the values that a tie moves.
    """
    channels, values = thresholds.shape
    span = int(thresholds.max()) - int(thresholds.min()) if values else 0
    if span.bit_length() + values.bit_length() + 1 > MAX_PRODUCT_BITS:
        thresholds = thresholds.astype(object)
    kept = np.zeros(thresholds.shape, dtype=bool)
    for parity in (odd, ~odd):
        kept |= _hull(thresholds, reached & parity, 1) | _hull(thresholds, missed & parity, -1)
    count = kept.sum(axis=1)
    columns = np.zeros((channels, max(1, int(count.max()))), dtype=np.int64)
    channel, column = np.nonzero(kept)
    index = np.arange(len(channel)) - np.repeat(np.cumsum(count) - count, count)
    columns[channel, index] = column
    return np.maximum.accumulate(columns, axis=1)


def _hull(thresholds: np.ndarray, points: np.ndarray, side: int) -> np.ndarray:
    """Return which of the ``points`` (T_k, k) are corners, seen from above (1) or below (-1): bool like ``thresholds``.

    A point that lies on or behind the line through two others is not a corner, so that many can be left out at once.
    """
    channel, k = np.nonzero(points)
    x = thresholds[channel, k]
    for _ in range(MAX_PASSES):
        if len(k) < 3:
            break
        turn = (x[1:-1] - x[:-2]) * (k[2:] - k[:-2]) - (k[1:-1] - k[:-2]) * (x[2:] - x[:-2])
        behind = (side * turn >= 0) & (channel[:-2] == channel[2:])
        if not behind.any():
            break
        stays = np.concatenate([[True], ~behind, [True]])
        channel, k, x = channel[stays], k[stays], x[stays]
    kept = np.zeros(thresholds.shape, dtype=bool)
    kept[channel, k] = True
    return kept
