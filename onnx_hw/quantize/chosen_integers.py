"""The integers that were chosen for a float model: of its data, its weights and what is added to sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.quantize.leave_one_out import Chosen


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


@dataclass
class Integers:
    """What was chosen.

    Attributes:
        data: by value.
        weights: by the product's result.
        terms: by the term's name: as integers, or as floats.
        ranges: of data, where they were weighed.
    """

    data: dict[str, Grid] = field(default_factory=dict)
    weights: dict[str, StoredWeights] = field(default_factory=dict)
    terms: dict[str, StoredTerm | np.ndarray] = field(default_factory=dict)
    ranges: dict[str, Chosen] = field(default_factory=dict)
