"""The integers that were chosen for a float model: of its data, its weights and what is added to sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.quantization.ranges.mse import MseRange
from onnx_hw.samples.sqnr import NoiseStatistics


@dataclass(frozen=True)
class StoredWeights:
    """Attributes:
    integers: int64, in the shape of the weights.
    grid: what they stand for; one step per output, or one.
    """

    integers: np.ndarray
    grid: Grid


@dataclass(frozen=True)
class StoredTerm:
    """Attributes:
    integers: int64, in the shape of the term.
    step: of all of them; the zero point is 0.
    """

    integers: np.ndarray
    step: Fraction


@dataclass(frozen=True)
class QuantError:
    """A value on samples, as the integers so far make it, beside the value in floats.

    Attributes:
        arrived: before it got integers of its own.
        held: what those stand for.
        saturated: share of the numbers that lie beyond its integers, 0..1.
    """

    arrived: NoiseStatistics
    held: NoiseStatistics
    saturated: float = 0.0


@dataclass
class IntegerDecisions:
    """What was chosen.

    Attributes:
        data: by value.
        weights: by the product's result.
        terms: by the term's name: as integers, or as floats.
        ranges: of data, where they were weighed.
        held: of data, and of the ends (``ends.py``), in the order of the graph.
        noises: of the ends, (samples,) sums of squares of what each of the samples that say what is lost is off by.
        classes: (samples,) the places of the greatest number of the first end, in floats and in integers.
    """

    data: dict[str, Grid] = field(default_factory=dict)
    weights: dict[str, StoredWeights] = field(default_factory=dict)
    terms: dict[str, StoredTerm | np.ndarray] = field(default_factory=dict)
    ranges: dict[str, MseRange] = field(default_factory=dict)
    held: dict[str, QuantError] = field(default_factory=dict)
    noises: dict[str, np.ndarray] = field(default_factory=dict)
    classes: tuple[np.ndarray, np.ndarray] | None = None
