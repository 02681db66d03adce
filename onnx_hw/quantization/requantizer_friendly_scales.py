"""Weight scales that make requantizers cheap.

The requantizer behind a product computes round(slope · sum + offset) with the slope (step of the data) · (step of the
weights) / (step of the result). Any step serves the weights as well as one that is a little finer, so it is taken such
that the slope is m/2^S with a short m, and the offset such that it is an odd multiple of 2^-(S+1): then no sum is a
tie, and one multiplication by m, one addition and a shift are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, log2

import numpy as np

from onnx_hw.exact.grid import Grid

MIN_BITS, USUAL_BITS, MAX_BITS = 8, 10, 16
"""Bits of the longest multiplier of a layer; more than the usual number only for an excess of ``MAX_WEIGHT_MSE_RATIO``.
"""

MAX_MSE_RATIO = 1.02
"""Greatest growth of the mean square of rounding before a layer gets longer multipliers."""

MAX_WEIGHT_MSE_RATIO = 2
"""Greatest growth of the same for the weights, each output weighted alike: a later product may need the small ones."""

STEP_BITS = 16
"""Bits of the step of data: a multiplier times such a step, and a bias in parts of it, are exact in float32."""

MAX_TERM = (1 << 31) - 1
"""Greatest bias term, an int32."""


def shorten_step(grid: Grid) -> Grid:
    """Return a grid of data whose step has few bits; it is coarser by at most 2^-15."""
    (step,) = grid.step
    unit = Fraction(2) ** (floor(log2(step)) - (STEP_BITS - 1))
    return Grid.over(grid.dtype, ceil(step / unit) * unit, grid.zero_point)


@dataclass(frozen=True)
class RequantizerScale:
    """Scale of the requantizer behind one product.

    Attributes:
        multipliers: m, one per output.
        shift: S.
        data, result: grids of the product's data and of the result.
    """

    multipliers: tuple[int, ...]
    shift: int
    data: Grid
    result: Grid

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """Step of the weights of each output."""
        (data,), (result,) = self.data.step, self.result.step
        return tuple(Fraction(m, 1 << self.shift) * result / data for m in self.multipliers)

    @property
    def unit(self) -> Fraction:
        """Unit of bias terms."""
        (result,) = self.result.step
        return result / (1 << self.shift + 1)

    def terms(self, targets: np.ndarray) -> np.ndarray | None:
        """Return the bias term of each output in units, (outputs,) int64: the odd number next to the given one.

        The zero point of the data adds multiples of m/2^S, which are even. None where they do not fit 32 bits.
        """
        units = [2 * floor(Fraction(float(number)) / (2 * self.unit)) + 1 for number in targets]
        return np.array(units, dtype=np.int64) if max(map(abs, units)) <= MAX_TERM else None


def design_scale(scales: Sequence[float], data: Grid, result: Grid, reach: int) -> RequantizerScale | None:
    """Return the design whose weight steps are the given scales, or a little coarser; one per output, positive.

    None where the outputs differ so much that short multipliers would make some far coarser: the weights of an output
    that is 0 on all samples may be arbitrarily large.

    Args:
        reach: greatest absolute sum of products of the integers of an output.
    """
    (step_in,), (step_out,) = data.step, result.step
    slopes = np.array(scales) * float(step_in / step_out)
    matters = slopes * reach >= 0.5  # the other outputs round to their bias term
    for bits in range(MIN_BITS, MAX_BITS + 1):
        shift = max(1, bits - 1 - floor(log2(float(slopes.max()))))
        if ceil(float(slopes.max()) * 2.0**shift) >= 1 << bits:
            shift = max(1, shift - 1)
        multipliers = np.maximum(np.ceil(slopes * 2.0**shift), 1)
        coarser = np.square(multipliers / (slopes * 2.0**shift))
        fine = bits >= USUAL_BITS or float(np.average(coarser, weights=np.square(slopes))) <= MAX_MSE_RATIO
        if fine and float(coarser.mean(where=matters) if matters.any() else 1.0) <= MAX_WEIGHT_MSE_RATIO:
            return RequantizerScale(tuple(int(m) for m in multipliers), shift, data, result)
    return None
