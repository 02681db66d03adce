"""Weights are rounded by their effect: what one of them is off by, the others of its output make up for.

The error of an output is (w − ŵ)ᵀ·H·(w − ŵ), where H is the covariance of its columns, which are the *quantized* data.
Weights are rounded one after the other, and the rest moves to where the error is least: the method of optimal brain
compression (Frantar and Alistarh 2022), in the order of GPTQ. The mean of the columns is left to the bias.

With few rows H knows little of new data. It is damped with the mean of its diagonal, the more so the fewer rows there
are to a column, so that few samples do no harm: without rows nothing but rounding to nearest would remain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DAMPING = 0.01
DAMPING_PER_COLUMN = 0.05
"""Shares of the mean of the diagonal; the second for a column to every row."""

RIDGE = 0.3
"""Share of the mean of the diagonal, and as much for a column to every row, that holds weights where they are."""

FACTORS = np.linspace(0.4, 1.0, 25)
"""Of the scale at which the largest weight is the greatest integer, by which others are tried."""


@dataclass(frozen=True, eq=False)
class Columns:
    """What is known of the columns that the weights of a group's outputs are multiplied with.

    Attributes:
        covariance: (groups, columns, columns), damped; the mean of the diagonal is 1 and the damping.
        mean: (groups, columns).
    """

    covariance: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray) -> Columns:
        """Args:
        columns: (groups, rows, columns).
        """
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
        """(groups, columns)."""
        return np.diagonal(self.covariance, axis1=1, axis2=2)


def towards_floats(weights: np.ndarray, columns: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Weights whose sums of the quantized data are nearer to those in floats: a ridge regression of what is missing.

    How much of it serves new samples the two halves of the rows say of each other; it may be nothing.

    Args:
        weights: (groups, outputs, columns).
        columns: (groups, rows, columns), sample after sample.
        targets: (groups, rows, outputs), what the sums are in floats.
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
    """(groups, columns, outputs) that make what is missing of the data."""
    _, rows, count = data.shape
    turned = data.transpose(0, 2, 1)
    covariance = turned @ data / rows
    size = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / count
    held = np.where(size > 0, size, 1.0) * RIDGE * (1 + count / rows) * np.eye(count)
    found: np.ndarray = np.linalg.solve(covariance + held, turned @ missing / rows)
    return found


def scales_for(weights: np.ndarray, columns: Columns, greatest: int) -> np.ndarray:
    """(groups, outputs) the scales at which rounding to nearest and saturation lose least, 1 for an output of zeros.

    Args:
        weights: (groups, outputs, columns).
        greatest: integer; the least is −greatest.
    """
    largest = np.abs(weights).max(axis=2)
    full = np.where(largest > 0, largest / greatest, 1.0)
    best, least = full, np.full(full.shape, np.inf)
    for factor in FACTORS[::-1]:
        scale = full * factor
        rounded = np.clip(np.rint(weights / scale[:, :, None]), -greatest, greatest) * scale[:, :, None]
        lost = (np.square(rounded - weights) * columns.diagonal[:, None]).sum(axis=2)
        best, least = np.where(lost < least, scale, best), np.minimum(lost, least)
    return best


def rounded(
    weights: np.ndarray, columns: Columns, scale: np.ndarray, zero: np.ndarray, low: int, high: int
) -> np.ndarray:
    """(groups, outputs, columns) int64: integers q that stand for scale · (q − zero).

    Args:
        weights: (groups, outputs, columns).
        scale, zero: (groups, outputs).
        low, high: the least and the greatest integer.
    """
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
