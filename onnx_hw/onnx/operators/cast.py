"""Conversion between element types by the rules of ONNX Cast."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array, dtype_of_name, greatest, integer_range, is_integer

# The float types that have a choice: beyond their range the result is the largest number, or else NaN or infinity.
_FLOAT8 = frozenset(dtype_of_name(name) for name in ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"))
# The float types without NaN and infinity: beyond their range the result is always the largest number.
_ALWAYS_SATURATING = frozenset(dtype_of_name(name) for name in ("float4e2m1", "float6e2m3", "float6e3m2"))


def convert(x: Array, dtype: np.dtype[Any], *, saturate: bool = True) -> Array:
    """``x`` in another element type: floats rounded to nearest even, float to integer cut off, integers modulo 2^bits.

    Args:
        saturate: what becomes of a float that an 8-bit float type cannot hold: its largest number; else NaN, infinity.
    """
    if x.dtype == dtype:
        return x
    if dtype in _ALWAYS_SATURATING or (saturate and dtype in _FLOAT8):
        most = greatest(dtype)
        return np.clip(_as_float(x), -most, most).astype(dtype)
    if dtype in _FLOAT8:
        return _as_float(x).astype(dtype)
    if is_integer(dtype) and dtype.kind == "V":
        return _wrap(x, dtype)
    return x.astype(dtype)


def _as_float(x: Array) -> Array:
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


def _wrap(x: Array, dtype: np.dtype[Any]) -> Array:
    """To an integer of 4 or 2 bits: the low bits, as a sign or a magnitude."""
    low, high = integer_range(dtype)
    wide = x.astype(np.int64)
    return ((wide - low) % (high - low + 1) + low).astype(np.int8 if low else np.uint8).astype(dtype)
