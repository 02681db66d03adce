"""Requantizer of a sum whose addends come out of loaded tables: a shift, the rounding of ties, and bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.exact.step_function import Steps


@dataclass(frozen=True)
class LoadableBounds:
    """Form of a shift whose bounds and rounding of ties are loaded at run time.

    Attributes:
        clamp: the type of an argument.
        shift: number of bits that are dropped.
        low, high: least and greatest bound.
    """

    clamp: Int
    shift: int
    low: int
    high: int

    channels = 1

    @property
    def ends(self) -> tuple[int, int]:
        """Least and greatest result of a circuit of this form."""
        return self.low, self.high


@dataclass(frozen=True)
class RoundingShift:
    """Requantizer y = clamp((x − tie) >> shift, low, high) for all channels.

    Attributes:
        clamp: the type of x.
        shift: number of bits that are dropped.
        low, high: the result is clamped to this range.
        parity: ``tie`` is 1 where bit ``shift`` of x equals this, else 0.
        form: the form with which others share the circuit.
    """

    clamp: Int
    shift: int
    low: int
    high: int
    parity: int
    form: LoadableBounds

    channels = 1

    @property
    def bounds_type(self) -> Int:
        """Type of the loaded bounds."""
        return Int.holding(self.form.low, self.form.high)

    def apply(self, channel: np.ndarray, x: np.ndarray) -> np.ndarray:  # noqa: ARG002  # as of other requantizers
        """Compute the circuit's results for pairs (channel, x), of which the channel does not matter; int64."""
        corrected = x - ((x >> self.shift) % 2 == self.parity)
        return np.clip(corrected >> self.shift, self.low, self.high)


def shift_in_form(exact: Steps, form: LoadableBounds) -> RoundingShift | None:
    """Return the circuit of a form that may compute a function; None where none of this form does."""
    fits = exact.channels == 1 and form.low <= exact.low <= exact.high <= form.high
    if not fits or not form.clamp.min <= exact.first <= exact.last <= form.clamp.max:
        return None
    found = RoundingShift(form.clamp, form.shift, exact.low, exact.high, exact.parity, form)
    channel, x = exact.witnesses()
    return found if np.array_equal(found.apply(channel, x), exact.at(channel, x)) else None


def steps_of_shift(shift: int, parity: int, bounds: tuple[int, int], arguments: tuple[int, int]) -> Steps:
    """Return the function of such a shift.

    Args:
        bounds: low and high.
        arguments: least and greatest x.
    """
    (low, high), (first, last) = bounds, arguments
    levels = np.arange(low + 1, high + 1, dtype=np.int64)
    thresholds = np.clip((levels << shift) + (levels % 2 == parity), first, last + 1)
    return Steps(first, last, low, high, thresholds[np.newaxis], parity)
