"""The type of a tensor of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_hw.exact.integers import Int


@dataclass(frozen=True)
class Tensor:
    """The type of an integer tensor of one frame: ``shape`` is (height, width, channels), channel innermost.

    A vector is ``(1, 1, channels)``. ``low`` and ``high`` bound the values that can occur (reachable range), which may
    be narrower than what ``dtype`` can hold.
    """

    shape: tuple[int, int, int]
    dtype: Int
    low: int | None = None
    high: int | None = None

    @property
    def range(self) -> tuple[int, int]:
        """The reachable values (lowest, highest)."""
        return (
            self.dtype.min if self.low is None else self.low,
            self.dtype.max if self.high is None else self.high,
        )

    @property
    def pixels(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def channels(self) -> int:
        return self.shape[2]

    @property
    def size(self) -> int:
        return self.pixels * self.channels

    @property
    def narrow(self) -> np.dtype[Any]:
        """The narrowest numpy type that holds every integer of ``dtype``, int64 at most, for traces of large frames."""
        signed = self.dtype.signed or self.dtype.bits > 32  # an unsigned type of 64 bits would make floats of others
        size = next(size for size in (1, 2, 4, 8) if 8 * size >= self.dtype.bits)
        return np.dtype(f"{'i' if signed else 'u'}{size}")

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"
