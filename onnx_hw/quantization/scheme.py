"""How integers are chosen for a model that has floats: how many bits, with which zero point, from which range."""

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
"""Bits."""


@dataclass(frozen=True)
class Precision:
    """Of one kind of tensor; its integers have a sign.

    Attributes:
        bits: 1..16; at least 2 with symmetric integers.
        symmetric: the zero point is 0; of weights the least integer is then left out.
        per_channel: with a scale for each output; of weights only.
    """

    bits: int = 8
    symmetric: bool = False
    per_channel: bool = False

    def __post_init__(self) -> None:
        least = 1 + self.symmetric
        if not least <= self.bits <= MAX_BITS:
            kind = "symmetric integers" if self.symmetric else "integers"
            raise _error(f"{kind} must have {least} to {MAX_BITS} bits, not {self.bits}")

    @property
    def dtype(self) -> Int:
        return Int(self.bits)

    def data_grid(self, span: Range) -> Grid:
        """The grid for numbers of a range, with an integer for 0; the step is a float32."""
        low, high, dtype = min(span.low, 0.0), max(span.high, 0.0), self.dtype
        size, count = (max(-low, high), dtype.max) if self.symmetric else (high - low, dtype.max - dtype.min)
        step = float(_float32(size / count if size > 0 else 1.0))
        zero = 0 if self.symmetric else int(np.clip(round(dtype.min - low / step), dtype.min, dtype.max))
        return Grid.over(dtype, Fraction(step), zero)

    def weight_grid(self, weights: np.ndarray, axis: int) -> Grid:
        """The grid for finite weights, with an integer for 0; steps are float32, one or one per output.

        Args:
            axis: of the outputs.
        """
        others = tuple(k for k in range(weights.ndim) if k != axis) if self.per_channel else None
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
    """What quantization chooses where a model leaves it open.

    Attributes:
        data: of values.
        weights: of the constants of products.
        ranges: what of the samples a range is taken from.
        output: what leaves the hardware.
        data_overrides: of single values, by name.
        weight_overrides: of the weights of single nodes, by the node's name, or that of its output if it has none.
        goal: the bits of everything that has none of its own are searched for.
    """

    data: Precision = Precision()
    weights: Precision = Precision(symmetric=True, per_channel=True)
    ranges: RangeMethod = RangeMethod.MSE
    output: OutputKind = OutputKind.ACCUMULATORS
    data_overrides: Mapping[str, Precision] = field(default_factory=dict)
    weight_overrides: Mapping[str, Precision] = field(default_factory=dict)
    goal: Goal | None = None

    def __post_init__(self) -> None:
        if self.data.per_channel or any(precision.per_channel for precision in self.data_overrides.values()):
            raise _error("data must have one scale, not one per channel")
        if self.goal is not None and self.ranges is not RangeMethod.MSE:
            raise _error("to reach a goal ranges must be those of the least loss")

    def data_precision(self, name: str) -> Precision:
        return self.data_overrides.get(name, self.data)

    def weight_precision(self, label: str) -> Precision:
        return self.weight_overrides.get(label, self.weights)

    def check_names(self, values: Collection[str], nodes: Collection[str]) -> None:
        """That each override is of something that is quantized.

        Raises:
            UserError: one is not.
        """
        for what, asked, known in (
            ("a value that is quantized", self.data_overrides, values),
            ("a node whose weights are quantized", self.weight_overrides, nodes),
        ):
            for name in asked:
                if name not in known:
                    raise _error(f"an override must be of {what}; `{name}` is none", f"there are {_listed(known)}")


DEFAULT = Scheme()


def _float32(scales: Any) -> np.ndarray:
    """Positive scales, normal numbers when they are rounded: others would have few digits."""
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
