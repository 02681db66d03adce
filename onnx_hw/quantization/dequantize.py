"""Fake quantization: the numbers that integers of a grid stand for, array by array, as float32."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid


def fake_quantize(grid: Grid, numbers: np.ndarray) -> np.ndarray:
    """Round numbers to a grid and return what the integers stand for (fake quantization); the grid has one step."""
    (step,), (zero,) = grid.step, grid.zero_point
    with np.errstate(over="ignore"):  # the last integer may lie beyond float32
        return ((grid.integers(numbers) - float(zero)) * float(step)).astype(np.float32)


def representable_range(grid: Grid) -> tuple[float, float]:
    """Return the least and the greatest number that do not saturate; the grid has one step."""
    (step,), (zero,) = grid.step, grid.zero_point
    return float((grid.low - zero - Fraction(1, 2)) * step), float((grid.high - zero + Fraction(1, 2)) * step)


def dequantize(integers: np.ndarray, grid: Grid, axis: int) -> np.ndarray:
    """Return the numbers that integers stand for, float32; the steps of the grid lie along ``axis``."""
    along = [-1 if k == axis else 1 for k in range(integers.ndim)] if grid.channels > 1 else ()
    step, zero = (np.array([float(n) for n in numbers]) for numbers in (grid.step, grid.zero_point))
    wide = [np.broadcast_to(array, grid.channels).reshape(along) for array in (step, zero)]
    return ((integers - wide[1]) * wide[0]).astype(np.float32)
