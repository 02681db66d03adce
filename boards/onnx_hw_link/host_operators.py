"""Operators of the host, before and after the hardware: a few of ONNX's, in numpy, as ONNX defines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import prod
from typing import Any

import numpy as np

__all__ = [
    "DOMAINS",
    "FLOATS",
    "INTEGERS",
    "KNOWN",
    "MAX_ELEMENTS",
    "ROUNDING_MODES",
    "Held",
    "limits_of",
    "quant_bounds",
    "run_steps",
]

Array = np.ndarray


def limits_of(dtype: np.dtype[Any], bits: int = 0) -> tuple[int, int]:
    """Return the least and the greatest integer of a numpy type, or of ``bits`` bits that are kept in this type."""
    width = bits or 8 * dtype.itemsize
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if dtype.kind == "i" else (0, (1 << width) - 1)


def _quantize(x: Array, scale: Array, zero_point: Array, *, axis: int = 1, bits: int = 0) -> Array:
    """Return ``saturate(round_half_even(x / scale) + zero_point)``.

    Args:
        bits: width of the integers where numpy has none of this width (int4, uint2 ...); 0 for that of ``zero_point``.
    """
    rounded = np.rint(np.divide(x.astype(scale.dtype), _along(scale, x, axis)))
    summed = rounded.astype(np.float64) + _along(zero_point, x, axis).astype(np.float64)
    return np.clip(summed, *limits_of(zero_point.dtype, bits)).astype(zero_point.dtype)


def _dequantize(x: Array, scale: Array, zero_point: Array | None = None, *, axis: int = 1) -> Array:
    """Return ``(x - zero_point) · scale``; the difference is exact."""
    wide = x.astype(np.int64) - (0 if zero_point is None else _along(zero_point, x, axis).astype(np.int64))
    return np.asarray(wide.astype(scale.dtype) * _along(scale, x, axis))


def _along(parameter: Array, x: Array, axis: int) -> Array:
    """Return a parameter, one for all or one per entry of an axis, in a shape that broadcasts to that of ``x``."""
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape(-1, *(1,) * (x.ndim - 1 - axis % x.ndim))


def _softmax(x: Array, *, axis: int = -1) -> Array:
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=axis, keepdims=True))


def _argmax(x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    index = np.argmax(np.flip(x, axis) if select_last_index else x, axis=axis)
    index = x.shape[axis] - 1 - index if select_last_index else index
    return (np.expand_dims(index, axis) if keepdims else np.asarray(index)).astype(np.int64)


def _reshape(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    sizes = [x.shape[k] if size == 0 and not allowzero else int(size) for k, size in enumerate(shape)]
    return x.reshape(sizes)


def _flatten(x: Array, *, axis: int = 1) -> Array:
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def _transpose(x: Array, *, perm: Sequence[int] | None = None) -> Array:
    return np.transpose(x, perm)


def _concat(*parts: Array, axis: int) -> Array:
    return np.concatenate(parts, axis=axis)


FLOATS: Mapping[int, np.dtype[Any]] = {1: np.dtype(np.float32), 11: np.dtype(np.float64)}
"""Types that a Cast here may make, by ONNX's numbers: such casts mean the same in every version."""

INTEGERS: Mapping[int, np.dtype[Any]] = {
    number: np.dtype(name) for number, name in enumerate(("uint8", "int8", "uint16", "int16", "int32", "int64"), 2)
}
"""Types that a Cast of whole numbers may make, too."""


def _cast(x: Array, *, to: int) -> Array:
    return x.astype(FLOATS.get(to) or INTEGERS[to])


ROUNDING_MODES = ("ROUND", "HALF_EVEN")
"""Rounding modes of ``Quant`` that are known here: to the nearest, ties to the even one."""


def quant_bounds(bits: float, signed: int, narrow: int) -> tuple[float, float]:
    """Return the least and the greatest number of steps of QONNX's ``Quant``, for two bits or more."""
    if signed:
        return -(2.0 ** (bits - 1)) + bool(narrow), 2.0 ** (bits - 1) - 1
    return 0.0, 2.0**bits - 1 - bool(narrow)


def _quant(
    x: Array,
    scale: Array,
    zero_point: Array,
    bit_width: Array,
    *,
    narrow: int = 0,
    rounding_mode: str = "ROUND",
    signed: int = 1,
) -> Array:
    """Return ``(round(clamp(x / scale + zero_point)) - zero_point) * scale`` in the dtype of ``x``, as QONNX does."""
    assert rounding_mode in ROUNDING_MODES
    steps = (x / scale + zero_point).astype(np.float64)
    steps = np.rint(np.clip(steps, *quant_bounds(float(bit_width.reshape(())), signed, narrow)))
    return np.asarray((steps - zero_point) * scale).astype(x.dtype)


def _scaler(x: Array, *, offset: Sequence[float], scale: Sequence[float]) -> Array:
    """Return ``(x - offset) * scale`` in float32; both are one number, or one per column."""
    return np.asarray((x.astype(np.float32) - np.array(offset, np.float32)) * np.array(scale, np.float32))


def _clip(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """Return ``min(max(x, low), high)``; None is no bound."""
    x = x if low is None else np.maximum(x, low.reshape(()))
    return x if high is None else np.minimum(x, high.reshape(()))


def _identity(x: Array) -> Array:
    return x


class Held(Enum):
    """Element types for which an operator here means what ONNX says."""

    NARROW = "narrow"  # those of numpy, and integers of 2 and 4 bits, which are held in bytes
    NUMPY = "numpy"  # those of numpy: integers wrap to the width of their type
    FLOAT = "float"  # float32 and float64


KNOWN: Mapping[str, tuple[int, Callable[..., Array], Held]] = {
    "QuantizeLinear": (10, _quantize, Held.NARROW),
    "DequantizeLinear": (10, _dequantize, Held.NARROW),
    "Softmax": (13, _softmax, Held.NUMPY),
    "ArgMax": (12, _argmax, Held.NARROW),
    "Reshape": (5, _reshape, Held.NARROW),
    "Flatten": (11, _flatten, Held.NARROW),
    "Transpose": (1, _transpose, Held.NARROW),
    "Identity": (1, _identity, Held.NARROW),
    "Clip": (11, _clip, Held.NARROW),
    "Concat": (4, _concat, Held.NARROW),
    "Cast": (6, _cast, Held.NARROW),
    "Add": (7, np.add, Held.NUMPY),
    "Sub": (7, np.subtract, Held.NUMPY),
    "Mul": (7, np.multiply, Held.NUMPY),
    "Div": (7, np.true_divide, Held.FLOAT),
    "Round": (11, np.rint, Held.FLOAT),
    "Quant": (1, _quant, Held.FLOAT),
    "Scaler": (1, _scaler, Held.FLOAT),
}
"""Operators by ONNX's name: (the first version with this meaning, the function, its types). Attributes are keywords."""


DOMAINS: Mapping[str, tuple[str, ...]] = {
    "Quant": ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas"),
    "Scaler": ("ai.onnx.ml",),
}
"""Domains of the operators above that are not ONNX's own."""


MAX_ELEMENTS = 1 << 26
"""Largest number of elements of an array on the host."""


def _require_size(op: str, inputs: Sequence[Array]) -> None:
    """Raise ``ValueError`` for inputs whose result would be larger than any array may be."""
    size = sum(x.size for x in inputs)
    if isinstance(KNOWN[op][1], np.ufunc):
        size = max(size, prod(np.broadcast_shapes(*(x.shape for x in inputs))))
    if size > MAX_ELEMENTS:
        raise ValueError(f"{op} makes {size:,} elements, more than {MAX_ELEMENTS:,}")


def run_steps(steps: Sequence[Mapping[str, Any]], values: dict[str, Array]) -> dict[str, Array]:
    """Add the results of the steps to ``values``, by name.

    Args:
        steps: each ``op``, ``inputs`` ("" is left out), ``output`` and ``attributes``.
        values: known values, constants among them.

    Raises:
        ValueError, TypeError, LookupError, ArithmeticError: inputs or attributes do not fit the operator.
    """
    for step in steps:
        inputs = [values[name] if name else None for name in step["inputs"]]
        _require_size(step["op"], [x for x in inputs if x is not None])
        values[step["output"]] = np.asarray(KNOWN[step["op"]][1](*inputs, **step["attributes"]))
    return values
