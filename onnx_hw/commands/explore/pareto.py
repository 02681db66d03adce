"""Pareto front: fewer cells and more frames, in every respect at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def front(costs: Sequence[Sequence[float]]) -> list[bool]:
    """Return which of several things nothing else dominates.

    One dominates another if it costs no more in any respect, and less in one. Of equals, all or none are in front.

    Args:
        costs: (things, respects); less is better.
    """
    if not len(costs):
        return []
    array = np.asarray(costs, dtype=float)
    return [not bool(np.any(np.all(array <= own, axis=1) & np.any(array < own, axis=1))) for own in array]


def knee(costs: Sequence[Sequence[float]]) -> int | None:
    """Return the thing nearest to the best of every respect, each scaled to its range; None where there is nothing.

    Args:
        costs: (things, respects), of those in front.
    """
    if not len(costs):
        return None
    array = np.asarray(costs, dtype=float)
    low, high = array.min(axis=0), array.max(axis=0)
    scaled = (array - low) / np.where(high > low, high - low, 1.0)
    return int(np.argmin(np.square(scaled).sum(axis=1)))
