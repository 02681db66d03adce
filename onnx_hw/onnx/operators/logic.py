"""Comparisons, boolean and bitwise operators, Where."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.arithmetic import one_sided
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import (
    TensorType,
    bool_like_first,
    broadcast,
    broadcast_bool,
    broadcast_shape,
    like_first,
    same_dtype,
)


@operator(since=1, types=bool_like_first)
def Not(x: Array) -> Array:
    return np.logical_not(x)


@operator(since=7, types=broadcast_bool)
def And(a: Array, b: Array) -> Array:
    return np.logical_and(a, b)


@operator(since=1, types=bool_like_first)
def And_1(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
    return one_sided(np.logical_and, a, b, axis, broadcast)


@operator(since=7, types=broadcast_bool)
def Or(a: Array, b: Array) -> Array:
    return np.logical_or(a, b)


@operator(since=1, types=bool_like_first)
def Or_1(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
    return one_sided(np.logical_or, a, b, axis, broadcast)


@operator(since=7, types=broadcast_bool)
def Xor(a: Array, b: Array) -> Array:
    return np.logical_xor(a, b)


@operator(since=1, types=bool_like_first)
def Xor_1(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
    return one_sided(np.logical_xor, a, b, axis, broadcast)


@operator(since=(7, 11, 13, 19), types=broadcast_bool)
def Equal(a: Array, b: Array) -> Array:
    return np.equal(a, b)


@operator(since=1, types=bool_like_first)
def Equal_1(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
    return one_sided(np.equal, a, b, axis, broadcast)


@operator(since=(7, 9, 13), types=broadcast_bool)
def Greater(a: Array, b: Array) -> Array:
    return np.greater(a, b)


@operator(since=1, types=bool_like_first)
def Greater_1(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
    return one_sided(np.greater, a, b, axis, broadcast)


@operator(since=(7, 9, 13), types=broadcast_bool)
def Less(a: Array, b: Array) -> Array:
    return np.less(a, b)


@operator(since=1, types=bool_like_first)
def Less_1(a: Array, b: Array, *, axis: int | None = None, broadcast: int = 0) -> Array:
    return one_sided(np.less, a, b, axis, broadcast)


@operator(since=(12, 16), types=broadcast_bool)
def GreaterOrEqual(a: Array, b: Array) -> Array:
    return np.greater_equal(a, b)


@operator(since=(12, 16), types=broadcast_bool)
def LessOrEqual(a: Array, b: Array) -> Array:
    return np.less_equal(a, b)


def where_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    return TensorType(same_dtype(x, y), broadcast_shape(condition, x, y))


@operator(since=(9, 16), types=where_type)
def Where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


@operator(since=18, types=broadcast)
def BitwiseAnd(a: Array, b: Array) -> Array:
    return np.bitwise_and(a, b)


@operator(since=18, types=broadcast)
def BitwiseOr(a: Array, b: Array) -> Array:
    return np.bitwise_or(a, b)


@operator(since=18, types=broadcast)
def BitwiseXor(a: Array, b: Array) -> Array:
    return np.bitwise_xor(a, b)


@operator(since=18, types=like_first)
def BitwiseNot(x: Array) -> Array:
    return np.bitwise_not(x)


@operator(since=(11, 28), types=broadcast)
def BitShift(x: Array, y: Array, *, direction: str) -> Array:
    """Shift bits; a shift by the width of the type, or more, or by a negative number, leaves only the sign."""
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"direction must be LEFT or RIGHT, not {direction}")
    bits = 8 * x.dtype.itemsize
    far = (y < 0) | (y >= bits)
    amount = np.where(far, 0, y).astype(y.dtype)
    if direction == "LEFT":
        return np.where(far, x.dtype.type(0), np.left_shift(x, amount))
    sign_only = np.where(x < 0, -1, 0).astype(x.dtype)
    return np.where(far, sign_only, np.right_shift(x, amount))
