"""GPTQ rounding: each weight is rounded, and the other weights of its output compensate the error.

Weights and the columns of quantized data that they are multiplied with go in; integers come out. ``sequential_ptq``
calls it for every product with constant weights.

The error of an output is (w − ŵ)ᵀ·H·(w − ŵ), where H is the covariance of its columns, which are the *quantized* data.
Weights are rounded one after the other, and the rest moves to where the error is least: the method of optimal brain
compression (Frantar and Alistarh 2022), in the order of GPTQ. The bias corrects the error of the columns' mean.

With few bits rounding makes most of the error, and two more steps follow: scales are searched by the error that remains
after GPTQ rounding, and finally each weight is rounded once more with all others fixed, as long as the error falls
(coordinate descent). With many bits neither step gains anything, and few samples mislead both.

H of few rows says little about new data. It is damped with the mean of its diagonal, more strongly with fewer rows per
column, so that few samples do no harm: without rows only rounding to nearest would remain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

DAMPING = 0.01
DAMPING_PER_COLUMN = 0.05
"""Damping as shares of the mean of the diagonal; the second one is for one column per row."""

RIDGE = 0.3
"""Ridge penalty as a share of the mean of the diagonal, and the same again for one column per row."""

FACTORS = np.linspace(0.4, 1.0, 25)
"""Tried scales, relative to the scale at which the largest weight is the greatest integer."""

MAX_LOW_BIT_INTEGER = 31
"""Greatest integer up to which rounding makes most of the error (6 bits)."""

REFINED_FACTORS = np.linspace(0.8, 1.2, 9)
"""Tried scales for few bits, relative to the best scale for rounding to nearest."""

MAX_SWEEPS = 6
"""Greatest number of sweeps of coordinate descent over all weights."""


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Statistics of the columns that the weights of a group's outputs are multiplied with.

    Attributes:
        covariance: (groups, columns, columns), damped; the mean of the diagonal is 1 and the damping.
        mean: (groups, columns).
    """

    covariance: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray) -> ColumnStatistics:
        """Return the statistics of columns, (groups, rows, columns)."""
        _, rows, count = columns.shape
        mean = columns.mean(axis=1)
        centred = columns - mean[:, None]
        covariance = centred.transpose(0, 2, 1) @ centred / rows
        size = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / count
        covariance /= np.where(size > 0, size, 1.0)
        share = DAMPING + DAMPING_PER_COLUMN * count / rows
        return cls(covariance + share * np.eye(count), mean)

    @property
    def diagonal(self) -> np.ndarray:
        """Diagonal of the covariance, (groups, columns)."""
        return np.diagonal(self.covariance, axis1=1, axis2=2)


def fit_to_floats(weights: np.ndarray, columns: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Move weights so that their sums of quantized data come nearer to those in floats.

    This is a ridge regression of the remaining error.

    Cross-validation between the two halves of the rows says which share of the correction to apply; it may be none.

    Args:
        weights: (groups, outputs, columns).
        columns: (groups, rows, columns), sample after sample.
        targets: (groups, rows, outputs), the sums in floats.
    """
    rows = columns.shape[1]
    if rows < 2:
        return weights
    data = columns - columns.mean(axis=1, keepdims=True)
    missing = targets - targets.mean(axis=1, keepdims=True) - data @ weights.transpose(0, 2, 1)
    halves = slice(0, rows // 2), slice(rows // 2, rows)
    gained, made = 0.0, 0.0
    for one, other in (halves, halves[::-1]):
        found = data[:, other] @ _ridge(data[:, one], missing[:, one])
        gained, made = gained + float((found * missing[:, other]).sum()), made + float(np.square(found).sum())
    share = min(max(gained / made, 0.0), 1.0) if made > 0 else 0.0
    return weights + share * _ridge(data, missing).transpose(0, 2, 1) if share else weights


def _ridge(data: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return the ridge regression of the missing part on the data, (groups, columns, outputs)."""
    _, rows, count = data.shape
    turned = data.transpose(0, 2, 1)
    covariance = turned @ data / rows
    size = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / count
    held = np.where(size > 0, size, 1.0) * RIDGE * (1 + count / rows) * np.eye(count)
    found: np.ndarray = np.linalg.solve(covariance + held, turned @ missing / rows)
    return found


def search_scales(weights: np.ndarray, columns: ColumnStatistics, greatest: int) -> np.ndarray:
    """Return the scales with the least loss, (groups, outputs); for an output of zeros that of the largest weight.

    Args:
        weights: (groups, outputs, columns).
        greatest: greatest integer; the least is −greatest.
    """
    largest = np.abs(weights).max(axis=2)
    full = np.where(largest > 0, largest, largest.max() or greatest) / greatest

    def to_nearest(scale: np.ndarray) -> np.ndarray:
        nearest = np.clip(np.rint(weights / scale[:, :, None]), -greatest, greatest) * scale[:, :, None]
        lost: np.ndarray = (np.square(nearest - weights) * columns.diagonal[:, None]).sum(axis=2)
        return lost

    def by_effect(scale: np.ndarray) -> np.ndarray:
        zero = np.zeros_like(scale)
        off = weights - _round_with_compensation(weights, columns, scale, zero, -greatest, greatest) * scale[:, :, None]
        lost: np.ndarray = ((off @ columns.covariance) * off).sum(axis=2)
        return lost

    best = _best_scale(full, FACTORS[::-1], to_nearest)
    return best if greatest > MAX_LOW_BIT_INTEGER else _best_scale(best, REFINED_FACTORS, by_effect)


def _best_scale(scale: np.ndarray, factors: np.ndarray, lost: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the scale times the best of the factors for each output, (groups, outputs)."""
    best, least = scale, np.full(scale.shape, np.inf)
    for factor in factors:
        tried = scale * factor
        found = lost(tried)
        best, least = np.where(found < least, tried, best), np.minimum(found, least)
    return best


def gptq_round(
    weights: np.ndarray, columns: ColumnStatistics, scale: np.ndarray, zero: np.ndarray, low: int, high: int
) -> np.ndarray:
    """Round weights to integers q that stand for scale · (q − zero), (groups, outputs, columns) int64.

    Args:
        weights: (groups, outputs, columns).
        scale, zero: (groups, outputs).
        low, high: the least and the greatest integer.
    """
    found = _round_with_compensation(weights, columns, scale, zero, low, high)
    return found if high > MAX_LOW_BIT_INTEGER else _descend(found, weights, columns, scale, zero, low, high)


def _round_with_compensation(
    weights: np.ndarray, columns: ColumnStatistics, scale: np.ndarray, zero: np.ndarray, low: int, high: int
) -> np.ndarray:
    """Round weights one after the other, each compensating the error so far; arguments as in ``gptq_round``."""
    order = np.argsort(-columns.diagonal, axis=1, kind="stable")
    sorted_rows = np.take_along_axis(columns.covariance, order[:, :, None], axis=1)
    covariance = np.take_along_axis(sorted_rows, order[:, None, :], axis=2)
    rest = np.take_along_axis(weights.astype(np.float64), order[:, None, :], axis=2)
    inverse = np.linalg.inv(covariance)
    inverse = (inverse + inverse.transpose(0, 2, 1)) / 2
    factor = np.linalg.cholesky(inverse).transpose(0, 2, 1)
    integers = np.zeros(rest.shape, dtype=np.int64)
    for k in range(rest.shape[2]):
        nearest = np.clip(np.rint(rest[:, :, k] / scale + zero), low, high)
        integers[:, :, k] = nearest
        error = (rest[:, :, k] - (nearest - zero) * scale) / factor[:, k, k][:, None]
        rest[:, :, k + 1 :] -= error[:, :, None] * factor[:, None, k, k + 1 :]
    return np.take_along_axis(integers, np.argsort(order, axis=1)[:, None, :], axis=2)


def _descend(
    integers: np.ndarray,
    weights: np.ndarray,
    columns: ColumnStatistics,
    scale: np.ndarray,
    zero: np.ndarray,
    low: int,
    high: int,
) -> np.ndarray:
    """Improve integers until no single change reduces the loss; arguments as in ``gptq_round``."""
    found = integers.copy()
    slope = (weights - (found - zero[:, :, None]) * scale[:, :, None]) @ columns.covariance
    for _ in range(MAX_SWEEPS):
        changed = False
        for k in range(found.shape[2]):
            wished = found[:, :, k] + slope[:, :, k] / (columns.diagonal[:, None, k] * scale)
            moved = np.clip(np.rint(wished), low, high).astype(np.int64) - found[:, :, k]
            if moved.any():
                changed = True
                found[:, :, k] += moved
                slope -= (moved * scale)[:, :, None] * columns.covariance[:, None, k]
        if not changed:
            break
    return found
