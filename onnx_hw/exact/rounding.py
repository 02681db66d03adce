"""Rounding of a number between two integers, stated by its edges: from where on a number becomes k or more.

Every mode is monotone, so its edges define it: that of k lies half a step, a whole one or none below k, and belongs to
k or not. Integers may be arrays of them.
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np


class Rounding(Enum):
    """Rounding mode; all but the first have QONNX's names."""

    HALF_EVEN = "nearest; a half to an even number of steps from the zero point, as in ONNX"
    ROUND = "nearest; a half to the even integer"
    HALF_UP = "nearest; a half away from 0"
    HALF_DOWN = "nearest; a half towards 0"
    FLOOR = "downwards"
    CEIL = "upwards"
    UP = "away from 0"
    DOWN = "towards 0"

    @property
    def is_signed(self) -> bool:
        """Whether the edges of integers above 0 are further from them than those of the others, or nearer."""
        return self in (Rounding.UP, Rounding.DOWN)

    def halves_below(self, k: Any) -> Any:
        """Return how many halves the edge of k lies below k: 0, 1 or 2."""
        match self:
            case Rounding.FLOOR:
                return 0
            case Rounding.CEIL:
                return 2
            case Rounding.UP:
                return 2 * (k > 0)
            case Rounding.DOWN:
                return 2 * (k <= 0)
            case _:
                return 1

    def takes_edge(self, k: Any, zero: Any) -> Any:
        """Tell whether a number on the edge of k becomes k; ``zero`` is the zero point, rounded down."""
        match self:
            case Rounding.HALF_EVEN:
                return (k - zero) % 2 == 0
            case Rounding.ROUND:
                return k % 2 == 0
            case Rounding.HALF_UP | Rounding.DOWN:
                return k > 0
            case Rounding.HALF_DOWN | Rounding.UP:
                return k <= 0
            case Rounding.FLOOR:
                return True
            case Rounding.CEIL:
                return False

    def parity(self, zero: int) -> int:
        """Parity of the k that the number on their edge does not become; 1 where the parity does not matter."""
        return (1 + zero) % 2 if self is Rounding.HALF_EVEN else 1

    def integer(self, number: Fraction, zero: int) -> int:
        """Round an exact number."""
        k = number.numerator // number.denominator + 1
        above = 2 * (number - k) + self.halves_below(k)
        return k if above > 0 or (above == 0 and self.takes_edge(k, zero)) else k - 1

    def integers(self, numbers: np.ndarray, zero: Any) -> np.ndarray:
        """Round finite floats, exactly; int64. They count from ``zero``, so that it takes none of their bits."""
        if self is Rounding.HALF_EVEN:  # numpy's own needs half of the room
            return np.rint(numbers).astype(np.int64) + zero
        whole = np.floor(numbers)
        k = whole.astype(np.int64) + zero + 1
        above = 2 * (numbers - whole) - 2 + self.halves_below(k)
        return np.asarray(k - 1 + ((above > 0) | ((above == 0) & self.takes_edge(k, zero))))
