"""Calibration: the range that every value of a float model takes on samples.

A model and samples go in, a ``Range`` per value comes out. ``SampleRanges`` is handed to ``quantize_model``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from onnx_hw.messages.errors import user_error
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model
from onnx_hw.samples.samples import frame_count, one_frame

STEPS = (Fraction(1), Fraction(1, 255), *(Fraction(1, 1 << k) for k in range(1, 15)))
"""Tried steps, the coarsest first: of integers, of 8-bit pixels as numbers in 0..1, and powers of two."""

MAX_MULTIPLE = (1 << 15) - 1
"""Greatest multiple: an integer of 16 bits."""

REL_TOLERANCE = 2.0**-22
"""Relative rounding error of a multiple of 1/255 in float32, divided or multiplied."""

NUM_PROBED = 256
"""Numbers that are tested first: they refuse most steps quickly."""


@dataclass(frozen=True)
class Range:
    """Least and greatest number of a value on samples; both finite.

    Attributes:
        steps: those of ``STEPS`` of which all numbers are multiples, the coarsest first.
    """

    low: float
    high: float
    steps: tuple[Fraction, ...] = ()

    @property
    def step(self) -> Fraction | None:
        """Coarsest of the steps; None without steps, or if all numbers are 0."""
        return self.steps[0] if self.steps and (self.low or self.high) else None


class RangeMethod(Enum):
    """Way in which a range follows from samples."""

    MSE = "rounding and what new samples are expected to saturate"
    MIN_MAX = "the least and the greatest number of all samples"
    MEAN = "the mean of the least numbers of each sample, and that of the greatest"


def calibrate(
    model: Model,
    frames: Mapping[str, np.ndarray],
    names: Collection[str] | None = None,
    method: RangeMethod = RangeMethod.MIN_MAX,
) -> dict[str, Range]:
    """Return the ranges of float values of the graph: of all, or of those that are named.

    Args:
        frames: samples by graph input, (frames, *shape); empty for a graph without inputs, which is run once.
        method: how a range follows from samples; MSE counts as MIN_MAX here, because it needs the integers, too.

    Raises:
        UserError: a value is not finite.
    """
    ranges: dict[str, Range] = {}

    def observe(name: str, array: object) -> None:
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or array.size == 0:
            return
        low, high = float(array.min()), float(array.max())
        finite = np.isfinite(low) and np.isfinite(high)
        if not finite:
            seen.append(name)
        if names is not None and name not in names:
            return
        if not finite:
            since = "" if seen[0] == name else f"; the first to do so is `{seen[0]}`"
            raise user_error(
                "calibration-not-finite",
                f"what is quantized must be finite during calibration; `{name}` contains NaN or infinity{since}",
                where=f"sample {frame}",
                hint="look for NaN in the calibration data, or for a division by 0 in the model",
                stage="quantize",
            )
        known = ranges.get(name)
        if known is None:
            ranges[name] = Range(low, high, common_steps(array))
            return
        steps = common_steps(array, known.steps)
        if method is not RangeMethod.MEAN:
            ranges[name] = Range(min(low, known.low), max(high, known.high), steps)
        else:  # the mean of all frames so far
            share = 1 / (frame + 1)
            low, high = known.low + share * (low - known.low), known.high + share * (high - known.high)
            ranges[name] = Range(low, high, steps)

    for frame in range(frame_count(frames)):
        given = one_frame(frames, frame)
        seen: list[str] = []  # values that are not finite
        reference.run(model, given, observe=observe)  # the samples are observed, too, and once
    return ranges


def common_steps(numbers: np.ndarray, candidates: Iterable[Fraction] = STEPS) -> tuple[Fraction, ...]:
    """Return those of the candidates of which all numbers, which are finite, are multiples."""
    flat = numbers.reshape(-1)
    return tuple(step for step in candidates if _fits(flat[:NUM_PROBED], step) and _fits(flat, step))


def _fits(numbers: np.ndarray, step: Fraction) -> bool:
    counted = numbers.astype(np.float64) * float(1 / step)
    whole = np.rint(counted)
    off = 0.0 if step.denominator & (step.denominator - 1) == 0 else REL_TOLERANCE
    return bool((np.abs(whole) <= MAX_MULTIPLE).all() and (np.abs(counted - whole) <= off * np.abs(whole)).all())


RangeSource = Callable[[Model, Collection[str]], Mapping[str, Range]]
"""Function from a model and names of values to a range for each of them."""


@dataclass(frozen=True, eq=False)
class SampleRanges:
    """Ranges on samples.

    Attributes:
        frames: samples by graph input, (frames, *shape).
        method: how a range follows from samples.
        labels: (frames,) right classes; None where they are not known.
    """

    frames: Mapping[str, np.ndarray]
    method: RangeMethod = RangeMethod.MSE
    labels: np.ndarray | None = None

    def __call__(self, model: Model, names: Collection[str]) -> Mapping[str, Range]:
        return calibrate(model, self.frames, names, self.method)
