"""Conversion between element types: Cast, CastLike, BitCast."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.operators.dtypes import Array, dtype_of_code, dtype_of_name, greatest, integer_range, is_integer
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import TensorType

# The float types that have a choice: beyond their range the result is the largest number, or NaN or infinity.
_FLOAT8 = frozenset(dtype_of_name(name) for name in ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"))
# The float types without NaN and infinity: beyond their range the result is always the largest number.
_ALWAYS_SATURATING = frozenset(dtype_of_name(name) for name in ("float4e2m1", "float6e2m3", "float6e3m2"))
_POWERS = dtype_of_name("float8e8m0")


def cast_type(x: TensorType, *, to: int, **_: Any) -> TensorType:
    return x.with_dtype(dtype_of_code(to))


@operator(since=(24, 25, 28), types=cast_type, facts=Facts(Effect.KEEPS))
def Cast(x: Array, *, round_mode: str = "up", saturate: int = 1, to: int) -> Array:
    """Convert ``x``; ``round_mode`` is for float8e8m0 alone, ``saturate`` for the 8-bit floats."""
    return convert(x, dtype_of_code(to), saturate=bool(saturate), round_mode=round_mode)


@operator(since=(19, 21, 23), types=cast_type)
def Cast_19(x: Array, *, saturate: int = 1, to: int) -> Array:
    return convert(x, dtype_of_code(to), saturate=bool(saturate))


@operator(since=(6, 9, 13), types=cast_type)
def Cast_6(x: Array, *, to: int) -> Array:
    return convert(x, dtype_of_code(to))


def cast_1_type(x: TensorType, *, to: str) -> TensorType:
    return x.with_dtype(_dtype_of_upper_name(to))


@operator(since=1, types=cast_1_type)
def Cast_1(x: Array, *, to: str) -> Array:
    """Convert ``x`` to a type that is stated by name, such as FLOAT."""
    return convert(x, _dtype_of_upper_name(to))


def cast_like_type(x: TensorType, target: TensorType, **_: Any) -> TensorType:
    return x.with_dtype(target.dtype)


@operator(since=(24, 25), types=cast_like_type)
def CastLike(x: Array, target: Array, *, round_mode: str = "up", saturate: int = 1) -> Array:
    return convert(x, target.dtype, saturate=bool(saturate), round_mode=round_mode)


@operator(since=(19, 21, 23), types=cast_like_type)
def CastLike_19(x: Array, target: Array, *, saturate: int = 1) -> Array:
    return convert(x, target.dtype, saturate=bool(saturate))


@operator(since=15, types=cast_like_type)
def CastLike_15(x: Array, target: Array) -> Array:
    return convert(x, target.dtype)


@operator(since=26, types=cast_type)
def BitCast(x: Array, *, to: int) -> Array:
    """Read the same bits as another type of the same width."""
    dtype = dtype_of_code(to)
    if dtype.itemsize != x.dtype.itemsize or "O" in (dtype.kind, x.dtype.kind):
        raise ValueError(f"the bits of {x.dtype} cannot be read as {dtype}")
    return np.ascontiguousarray(x).view(dtype).reshape(x.shape)


def convert(x: Array, dtype: np.dtype[Any], *, saturate: bool = True, round_mode: str = "up") -> Array:
    """Convert ``x``: floats are rounded to nearest even, float to integer truncated, integers taken modulo 2^bits.

    Args:
        saturate: whether a float that an 8-bit float type cannot hold becomes its largest number; else NaN or infinity.
        round_mode: the direction in which float8e8m0 rounds to a power of two: ``up``, ``down`` or ``nearest``.
    """
    if x.dtype == dtype:
        return x
    if dtype.kind == "O":
        return _to_text(x)
    if x.dtype.kind == "O":
        x = x.astype(np.float64 if not is_integer(dtype) else np.int64)
    if dtype == _POWERS:
        return _to_power(_as_float(x), saturate, round_mode)
    if dtype in _ALWAYS_SATURATING or (saturate and dtype in _FLOAT8):
        most = greatest(dtype)
        return np.clip(_as_float(x), -most, most).astype(dtype)
    if dtype in _FLOAT8:
        return _as_float(x).astype(dtype)
    if is_integer(dtype) and dtype.kind == "V":
        return _wrap(x, dtype)
    if x.dtype.kind == "V" and is_integer(dtype):
        return _as_float(x).astype(np.int64).astype(dtype)
    return x.astype(dtype)


def _as_float(x: Array) -> Array:
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


def _wrap(x: Array, dtype: np.dtype[Any]) -> Array:
    """Reduce to an integer of 4 or 2 bits: the low bits, as a signed or unsigned number."""
    low, high = integer_range(dtype)
    wide = (_as_float(x) if x.dtype.kind == "V" else x).astype(np.int64)
    return ((wide - low) % (high - low + 1) + low).astype(np.int8 if low else np.uint8).astype(dtype)


def _to_power(x: Array, saturate: bool, round_mode: str) -> Array:
    """Round to the powers of two ``2^-127 .. 2^127``; signs are dropped, NaN stays."""
    if round_mode not in ("up", "down", "nearest"):
        raise ValueError(f"round_mode must be up, down or nearest, not {round_mode}")
    mantissa, exponent = np.frexp(np.abs(x.astype(np.float64)))  # x = mantissa * 2^exponent, mantissa in 1/2 .. 1
    bound = {"up": 0.5, "down": 1.0, "nearest": 0.75}[round_mode]
    above = mantissa >= bound if round_mode == "nearest" else mantissa > bound
    code = exponent + 126 + above
    lost = np.isnan(x)
    if saturate:
        code = np.where(np.isinf(x), 254, np.where(x == 0, 0, np.clip(code, 0, 254)))
    else:
        lost |= np.isinf(x) | (x == 0) | (code < 0) | (code > 254)
    return np.where(lost, 255, code).astype(np.uint8).view(_POWERS)


def _to_text(x: Array) -> Array:
    """Write numbers as Python does, whole floats without point; special values as NaN, INF, -INF."""
    return np.array([_text(value) for value in x.reshape(-1).tolist()], object).reshape(x.shape)


def _text(value: Any) -> str:
    if isinstance(value, float):
        if np.isnan(value):
            return "NaN"
        if np.isinf(value):
            return "INF" if value > 0 else "-INF"
    return str(value)


def _dtype_of_upper_name(name: str) -> np.dtype[Any]:
    if name.lower() not in BY_NAME:
        raise ValueError(f"to must be an element type such as FLOAT, not {name}")
    return dtype_of_name(name.lower())
