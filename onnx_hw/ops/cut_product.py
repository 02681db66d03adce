"""A product of matrices in two cuts: some of its results from one core, the others from another with lanes of its own.

A core does whole groups of results, and each group in whole beats of inputs: 64 times 64 products in 144 turns take 30
lanes, in 5 columns of 6. Two cores get closer: 16 lanes make 36 results, and 13 lanes make the other 28.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from onnx_hw.ops.tensor import Tensor


@lru_cache(maxsize=1 << 12)
def fewest_lanes_of_results(inputs: int, outputs: int, turns: int) -> np.ndarray:
    """Return the fewest lanes with which one core makes 1, 2, ... results within a number of turns: (outputs,) int64.

    Where no number of lanes is enough, more than two cores of all results have.
    """
    results = np.arange(1, outputs + 1)
    groups = np.arange(1, min(outputs, turns) + 1)
    if not groups.size:
        return np.full(outputs, 4 * inputs * outputs)
    lanes = -(-results[:, None] // groups) * -(-inputs // (turns // groups))
    return np.asarray(lanes.min(axis=1))


def best_cut(inputs: int, result: Tensor, interval: int) -> tuple[int, int] | None:
    """Return the lanes of the best cut that keeps up with an interval, and the results of its first part; None if no
    cut takes fewer lanes than all there are.
    """
    if result.channels < 2:
        return None
    fewest = fewest_lanes_of_results(inputs, result.channels, interval // result.pixels)
    first = np.arange(1, result.channels)
    lanes = fewest[:-1] + fewest[:-1][::-1]
    joined = max(1, -(-result.size // interval))  # lanes of what joins them: whole beats of the first part
    beats = first // joined + -(-(result.channels - first) // joined)
    legal = (first % joined == 0) & (beats * result.pixels <= interval)
    if not legal.any():
        return None
    lanes = np.where(legal, lanes, lanes.max() + 1)
    best = int(np.flatnonzero(lanes == lanes.min())[-1])  # what the second part makes waits until the first is done
    if lanes[best] > inputs * result.channels:
        return None
    return int(lanes[best]), int(first[best])
