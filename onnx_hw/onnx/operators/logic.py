"""Comparisons, boolean and bitwise operators, Where."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnx_hw.onnx.operators.arithmetic import one_sided_version
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


def of_two(
    name: str,
    compute: Callable[[Array, Array], Array],
    since: int | tuple[int, ...],
    types: Callable[..., TensorType] = broadcast_bool,
) -> None:
    """Register an operator of two tensors."""

    def function(a: Array, b: Array) -> Array:
        return compute(a, b)

    operator(since=since, name=name, types=types)(function)


of_two("And", np.logical_and, 7)
of_two("Or", np.logical_or, 7)
of_two("Xor", np.logical_xor, 7)
of_two("Equal", np.equal, (7, 11, 13, 19))
of_two("Greater", np.greater, (7, 9, 13))
of_two("Less", np.less, (7, 9, 13))
of_two("GreaterOrEqual", np.greater_equal, (12, 16))
of_two("LessOrEqual", np.less_equal, (12, 16))
of_two("BitwiseAnd", np.bitwise_and, 18, broadcast)
of_two("BitwiseOr", np.bitwise_or, 18, broadcast)
of_two("BitwiseXor", np.bitwise_xor, 18, broadcast)

one_sided_version("And", np.logical_and, bool_like_first)
one_sided_version("Or", np.logical_or, bool_like_first)
one_sided_version("Xor", np.logical_xor, bool_like_first)
one_sided_version("Equal", np.equal, bool_like_first)
one_sided_version("Greater", np.greater, bool_like_first)
one_sided_version("Less", np.less, bool_like_first)


def where_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    return TensorType(same_dtype(x, y), broadcast_shape(condition, x, y))


@operator(since=(9, 16), types=where_type)
def Where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


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
