"""Quantization scheme: bits, zero point and range method of the integers that a float model gets.

A ``Scheme`` is made of the user's options by ``scheme_from_options`` and goes through all of quantization.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.messages.errors import user_error
from onnx_hw.quantization.goal import Goal
from onnx_hw.quantization.ranges.calibrate import Range, RangeMethod
from onnx_hw.runtime.options import OutputKind

MAX_BITS = 16
"""Greatest width of an integer, in bits."""

MAX_SCALES = 1 << 14
"""Greatest number of scales of one tensor of weights."""


@dataclass(frozen=True)
class Precision:
    """Precision of one kind of tensor; the integers are signed.

    Attributes:
        bits: 1..16; at least 2 with symmetric integers.
        symmetric: whether the zero point is 0; weights then do not use the least integer.
        per_channel: whether each output channel has its own scale; for weights only.
    """

    bits: int = 8
    symmetric: bool = False
    per_channel: bool = False

    def __post_init__(self) -> None:
        least = 1 + self.symmetric
        if not least <= self.bits <= MAX_BITS:
            kind = "symmetric integers" if self.symmetric else "integers"
            hint = "8 is the default; `--bits weights=4,data=8` states others"
            raise _error(f"{kind} must have {least} to {MAX_BITS} bits, not {self.bits}", hint)

    @property
    def dtype(self) -> Int:
        return Int(self.bits)

    def data_grid(self, span: Range) -> Grid:
        """Return the grid for numbers of a range, with an integer for 0; the step is a float32."""
        low, high, dtype = min(span.low, 0.0), max(span.high, 0.0), self.dtype
        size, count = (max(-low, high), dtype.max) if self.symmetric else (high - low, dtype.max - dtype.min)
        step = float(_float32(size / count if size > 0 else 1.0))
        zero = 0 if self.symmetric else int(np.clip(round(dtype.min - low / step), dtype.min, dtype.max))
        return Grid.over(dtype, Fraction(step), zero)

    def scales_each(self, outputs: int) -> bool:
        """Return whether each output has a scale of its own, given their number."""
        return self.per_channel and outputs <= MAX_SCALES

    def weight_grid(self, weights: np.ndarray, axis: int) -> Grid:
        """Return the grid for finite weights, with an integer for 0; steps are float32, one or one per output.

        More than ``MAX_SCALES`` outputs have one step: their steps would take more memory than their weights.

        Args:
            axis: axis along which the outputs lie.
        """
        others = tuple(k for k in range(weights.ndim) if k != axis) if self.scales_each(weights.shape[axis]) else None
        dtype = self.dtype
        if self.symmetric:
            largest = np.abs(weights).max(axis=others)
            scale = _float32(np.where(largest > 0, largest / dtype.max, 1)).reshape(-1)
            return Grid.over(dtype, _exact(scale)).within(-dtype.max, dtype.max)
        wide = weights.astype(np.float64)
        low, high = (np.reshape(end, -1) for end in (wide.min(axis=others), wide.max(axis=others)))
        low, high = np.minimum(low, 0), np.maximum(high, 0)
        scale = _float32(np.where(high > low, (high - low) / (dtype.max - dtype.min), 1))
        zero = np.clip(np.rint(dtype.min - low / scale.astype(np.float64)), dtype.min, dtype.max)
        return Grid.over(dtype, _exact(scale), [int(number) for number in zero])


@dataclass(frozen=True)
class Scheme:
    """Choices of quantization where a model leaves them open.

    Attributes:
        data: precision of values.
        weights: precision of the constant factors of products.
        ranges: how a range follows from samples.
        output: what leaves the hardware, accumulators or int8.
        data_overrides: precision of single values, by name.
        weight_overrides: precision of the weights of single nodes, by the node's name, or by the name of its
            output if it has none.
        exact: names of values without integers of their own: their readers take the sums and products as they are.
        goal: goal of a search for the bits of everything without an override; None for no search.
        widen: whether single values may get more bits where the outputs would lose too much.
    """

    data: Precision = Precision()
    weights: Precision = Precision(symmetric=True, per_channel=True)
    ranges: RangeMethod = RangeMethod.MSE
    output: OutputKind = OutputKind.ACCUMULATORS
    data_overrides: Mapping[str, Precision] = field(default_factory=dict)
    weight_overrides: Mapping[str, Precision] = field(default_factory=dict)
    exact: frozenset[str] = frozenset()
    goal: Goal | None = None
    widen: bool = False

    def __post_init__(self) -> None:
        if self.data.per_channel or any(precision.per_channel for precision in self.data_overrides.values()):
            raise _error("data must have one scale for all channels, not one per channel")
        if self.goal is not None and self.ranges is not RangeMethod.MSE:
            raise _error("a goal can only be reached with ranges of least loss (RangeMethod.MSE)")

    def data_precision(self, name: str) -> Precision:
        return self.data_overrides.get(name, self.data)

    def weight_precision(self, label: str) -> Precision:
        return self.weight_overrides.get(label, self.weights)

    def check_names(self, values: Collection[str], nodes: Collection[str]) -> None:
        """Check that each override names something that is quantized.

        Raises:
            UserError: one of them does not.
        """
        for what, overrides, known in (
            ("a value that is quantized", self.data_overrides, values),
            ("a node whose weights are quantized", self.weight_overrides, nodes),
        ):
            for name in overrides:
                if name not in known:
                    raise _error(f"an override must name {what}; `{name}` is not one", f"there are {_listed(known)}")


DEFAULT = Scheme()


def _float32(scales: Any) -> np.ndarray:
    """Round positive scales to float32, limited to normal numbers, because subnormal ones have few digits."""
    limits = np.finfo(np.float32)
    rounded = np.minimum(scales, float(limits.max)).astype(np.float32)
    return np.asarray(np.maximum(rounded, limits.tiny))


def _exact(numbers: np.ndarray) -> list[Fraction]:
    return [Fraction(float(number)) for number in numbers]


def _listed(names: Iterable[str]) -> str:
    first = sorted(names)
    more = f" and {len(first) - 9} more" if len(first) > 9 else ""
    return (", ".join(f"`{name}`" for name in first[:9]) or "none") + more


def _error(message: str, hint: str = "") -> Exception:
    return user_error("scheme", message, hint=hint, stage="quantize")
