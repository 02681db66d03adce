"""Scales of weights that make requantizers cheap.

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

SHORTEST, USUAL, LONGEST = 8, 10, 16
"""Bits of the longest multiplier of a layer; more than the usual ones only for what would be ``MUCH_COARSER``."""

COARSER = 1.02
"""What the mean square of rounding may grow by before a layer gets longer multipliers."""

MUCH_COARSER = 2
"""What that of the weights may grow by, each output counting for as much: a later product may need the small ones."""

STEP_BITS = 16
"""Digits of the step of data: a multiplier times such a step, and a bias in parts of it, are exact in float32."""

MOST_TERM = (1 << 31) - 1


def shorten_step(grid: Grid) -> Grid:
    """A grid of data whose step has few digits; it is coarser by at most 2^-15."""
    (step,) = grid.step
    unit = Fraction(2) ** (floor(log2(step)) - (STEP_BITS - 1))
    return Grid.over(grid.dtype, ceil(step / unit) * unit, grid.zero_point)


@dataclass(frozen=True)
class RequantizerScale:
    """Of the requantizer behind one product.

    Attributes:
        multipliers: m, one per output.
        shift: S.
        data, result: the grids of what goes in and comes out.
    """

    multipliers: tuple[int, ...]
    shift: int
    data: Grid
    result: Grid

    @property
    def steps(self) -> tuple[Fraction, ...]:
        """Of the weights of each output."""
        (data,), (result,) = self.data.step, self.result.step
        return tuple(Fraction(m, 1 << self.shift) * result / data for m in self.multipliers)

    @property
    def unit(self) -> Fraction:
        """What terms are multiples of."""
        (result,) = self.result.step
        return result / (1 << self.shift + 1)

    def terms(self, wished: np.ndarray) -> np.ndarray | None:
        """(outputs,) int64: what is added to each output, in units: the odd number next to what is wished for.

        The zero point of the data adds multiples of m/2^S, which are even. None where they do not fit 32 bits.
        """
        units = [2 * floor(Fraction(float(number)) / (2 * self.unit)) + 1 for number in wished]
        return np.array(units, dtype=np.int64) if max(map(abs, units)) <= MOST_TERM else None


def design_scale(scales: Sequence[float], data: Grid, result: Grid, reach: int) -> RequantizerScale | None:
    """The design whose steps of weights are those scales, or a little coarser; one per output, positive.

    None where the outputs differ so much that short multipliers would make some far coarser: the weights of an output
    that no sample wakes may be as large as its BatchNormalization likes.

    Args:
        reach: what the integers of the weights can make of those of the data at most, in absolute value.
    """
    (step_in,), (step_out,) = data.step, result.step
    slopes = np.array(scales) * float(step_in / step_out)
    heard = slopes * reach >= 0.5  # of all others only the term is left when the result is rounded
    for bits in range(SHORTEST, LONGEST + 1):
        shift = max(1, bits - 1 - floor(log2(float(slopes.max()))))
        if ceil(float(slopes.max()) * 2.0**shift) >= 1 << bits:
            shift = max(1, shift - 1)
        multipliers = np.maximum(np.ceil(slopes * 2.0**shift), 1)
        coarser = np.square(multipliers / (slopes * 2.0**shift))
        fine = bits >= USUAL or float(np.average(coarser, weights=np.square(slopes))) <= COARSER
        if fine and float(coarser.mean(where=heard) if heard.any() else 1.0) <= MUCH_COARSER:
            return RequantizerScale(tuple(int(m) for m in multipliers), shift, data, result)
    return None
