"""Quantized constants, such as weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class QuantizedConstant:
    """Constant ``scale · integers`` with scales along an axis.

    Attributes:
        integers: int64, in the constant's shape, with the zero point already subtracted.
        scale: exact, not negative, one entry or one per index of ``axis``.
        axis: axis of the scales.
    """

    integers: np.ndarray
    scale: tuple[Fraction, ...]
    axis: int = 0

    def exact(self) -> np.ndarray:
        """Return the real numbers, an object array of ``Fraction`` in the constant's shape."""
        scale = np.array(self.scale, dtype=object)
        if len(self.scale) > 1:
            scale = scale.reshape([-1 if k == self.axis else 1 for k in range(self.integers.ndim)])
        return np.asarray(self.integers.astype(object) * scale, dtype=object).reshape(self.integers.shape)
