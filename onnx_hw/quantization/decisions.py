"""Integers that were chosen for a float model: for its data, its weights and its bias terms.

``sequential_ptq`` makes an ``IntegerDecisions``, ``insert_qdq`` writes it into the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.quantization.ranges.mse import MseRange
from onnx_hw.samples.sqnr import NoiseStatistics


@dataclass(frozen=True)
class StoredWeights:
    """Integer weights of a product.

    Attributes:
        integers: int64, in the shape of the weights.
        grid: grid of the integers; one step per output, or one step for all.
    """

    integers: np.ndarray
    grid: Grid


@dataclass(frozen=True)
class StoredTerm:
    """Integer bias term: int64 in the term's shape, and their step; the zero point is 0."""

    integers: np.ndarray
    step: Fraction


@dataclass(frozen=True)
class QuantError:
    """Quantization error of a value on samples, against the value in the float model.

    Attributes:
        arrived: error before the value gets integers of its own, made by the nodes before it.
        held: error after that.
        saturated: share of the numbers that lie beyond the range of its integers, 0..1.
    """

    arrived: NoiseStatistics
    held: NoiseStatistics
    saturated: float = 0.0


@dataclass
class IntegerDecisions:
    """Integers of all tensors of a model, and how well they do on samples.

    Attributes:
        data: grid of every quantized value, by name.
        weights: integer weights, by the name of the product's result.
        terms: bias terms, as integers or as floats; by the term's name.
        ranges: range of each value for which an MSE range was searched.
        held: error of each quantized value and of the logits (``logits.py``), in the order of the graph.
        noises: for each of the logits, (samples,) sums of squared errors on the samples that judge.
        spreads: for each of the logits, the sum of squared differences from their mean on the same samples.
        finite: whether all logits are finite with integers.
        classes: (samples,) index of the greatest of the first logits, in floats and in integers; None without logits.
    """

    data: dict[str, Grid] = field(default_factory=dict)
    weights: dict[str, StoredWeights] = field(default_factory=dict)
    terms: dict[str, StoredTerm | np.ndarray] = field(default_factory=dict)
    ranges: dict[str, MseRange] = field(default_factory=dict)
    held: dict[str, QuantError] = field(default_factory=dict)
    noises: dict[str, np.ndarray] = field(default_factory=dict)
    spreads: dict[str, float] = field(default_factory=dict)
    finite: bool = True
    classes: tuple[np.ndarray, np.ndarray] | None = None
