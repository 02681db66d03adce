"""Quantized constants, such as weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_hw.exact.integers import narrowed


@dataclass(frozen=True)
class QuantizedConstant:
    """Constant ``scale · integers`` with scales along an axis.

    All constants of a model are held until its last node is lowered, so each takes no more than its integers need.

    Attributes:
        stored: the integers in the narrowest signed dtype, in the constant's shape, with the zero point subtracted.
        scale: exact, not negative, one entry or one per index of ``axis``; equal ones are one entry.
        axis: axis of the scales.
    """

    stored: np.ndarray
    scale: tuple[Fraction, ...]
    axis: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "stored", narrowed(self.stored))
        if len(set(self.scale)) == 1:  # along whatever axis they were
            object.__setattr__(self, "scale", self.scale[:1])

    @property
    def integers(self) -> np.ndarray:
        """The integers, int64: a copy."""
        return self.stored.astype(np.int64)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the constant."""
        return self.stored.shape

    def exact(self) -> np.ndarray:
        """Return the real numbers, an object array of ``Fraction`` in the constant's shape."""
        scale = np.array(self.scale, dtype=object)
        if len(self.scale) > 1:
            scale = scale.reshape([-1 if k == self.axis else 1 for k in range(self.stored.ndim)])
        return np.asarray(self.stored.astype(object) * scale, dtype=object).reshape(self.shape)
