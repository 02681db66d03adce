"""Of very many linear constraints the few that may bind: the corners of a convex hull.

For a value k the constraints on a multiplier m and an addend are lines in m, ``k·2^S − T_k·m`` at least, and at most
one step of x less, to which every second k adds the same number. The highest of lines is one whose (T_k, k) is a corner
of the hull of all points, seen from above; the lowest one, seen from below. A rounded straight line has few corners: of
65,535 values some dozens.
"""

from __future__ import annotations

import numpy as np

MOST_PASSES = 200
"""Each one leaves out points; those that are still there afterwards do no harm."""

WIDEST = 62
"""Bits of the products that are compared."""


def corners(thresholds: np.ndarray, odd: np.ndarray, reached: np.ndarray, missed: np.ndarray) -> np.ndarray:
    """(channels, columns) int64: for every channel, ascending, the columns whose constraints may bind.

    A shorter row is filled up with its last column, all of them with column 0 where there is none.

    Args:
        thresholds, reached, missed: (channels, values); thresholds ascend.
        odd: (values,) which values a tie moves.
    """
    channels, values = thresholds.shape
    span = int(thresholds.max()) - int(thresholds.min()) if values else 0
    if span.bit_length() + values.bit_length() + 1 > WIDEST:
        thresholds = thresholds.astype(object)
    kept = np.zeros(thresholds.shape, dtype=bool)
    for parity in (odd, ~odd):
        kept |= _hull(thresholds, reached & parity, 1) | _hull(thresholds, missed & parity, -1)
    count = kept.sum(axis=1)
    columns = np.zeros((channels, max(1, int(count.max()))), dtype=np.int64)
    channel, column = np.nonzero(kept)
    place = np.arange(len(channel)) - np.repeat(np.cumsum(count) - count, count)
    columns[channel, place] = column
    return np.maximum.accumulate(columns, axis=1)


def _hull(thresholds: np.ndarray, there: np.ndarray, side: int) -> np.ndarray:
    """The points (T_k, k) ``there`` that are corners seen from above (1), or below (-1); bool like ``thresholds``.

    Whoever lies on or behind the line through two others is none, so that many can be left out at once.
    """
    channel, k = np.nonzero(there)
    x = thresholds[channel, k]
    for _ in range(MOST_PASSES):
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
