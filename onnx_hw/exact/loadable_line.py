"""Form of a requantizing multiplication whose constants are loaded at run time."""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.exact.integers import Int
from onnx_hw.exact.step_function import Steps

STEEPEST_LINE_ROOM = 3
"""Bits by which loaded addends are narrower than the product of the widest x and the widest multiplier."""


@dataclass(frozen=True)
class LoadableLine:
    """Form of a requantizer whose multipliers and addends are loaded at run time: their widths, and all that is fixed.

    Attributes:
        channels: number of multipliers and of addends.
        clamp: the type to which x saturates.
        digits: number of digits of a multiplier.
        addend: the type of an addend.
        zeros: number of bits at the bottom of every addend that are 0.
        shift: S.
        low, high: the result is clamped to this range, or to a loaded one within it.
        loads_bounds: whether the bounds of results are loaded.
    """

    channels: int
    clamp: Int
    digits: int
    addend: Int
    zeros: int
    shift: int
    low: int
    high: int
    loads_bounds: bool = False

    @property
    def ends(self) -> tuple[int, int]:
        """Least and greatest result of a circuit of this form."""
        return self.low, self.high

    @classmethod
    def over(
        cls, exact: Steps, operand: Int, shift: int, widest: int, zeros: int, loaded: Int | None = None
    ) -> LoadableLine:
        """Return the form for functions with the channels and results of ``exact``, of any argument of a type.

        Args:
            operand: the type of x.
            loaded: the type of bounds, where they are loaded.
            shift: S.
            widest: greatest multiplier that the form must admit.
            zeros: number of zeros at the bottom of addends.
        """
        digits = digits_of(widest)
        # an addend is about as great as the product where the result is 0; steep lines are 0 far within the range
        addend = Int(operand.bits + greatest_multiplier(digits).bit_length() - STEEPEST_LINE_ROOM)
        low, high = (exact.low, exact.high) if loaded is None else (loaded.min, loaded.max)
        return cls(exact.channels, operand, digits, addend, zeros, shift, low, high, loaded is not None)

    def admits(self, exact: Steps) -> bool:
        """Return whether channels, arguments and results of a function are those of the form."""
        bounds = self.low <= exact.low <= exact.high <= self.high
        if not self.loads_bounds:
            bounds = (exact.low, exact.high) == (self.low, self.high)
        arguments = self.clamp.min <= exact.first <= exact.last <= self.clamp.max
        return bounds and arguments and exact.channels == self.channels


def digits_of(multiplier: int) -> int:
    """Return the digits in base 4, each −1, 0, 1 or 2; at least one."""
    count = 1
    while multiplier > greatest_multiplier(count):
        count += 1
    return count


def greatest_multiplier(digits: int) -> int:
    """Return the greatest number with this number of digits: all are 2."""
    return 2 * (4**digits - 1) // 3
