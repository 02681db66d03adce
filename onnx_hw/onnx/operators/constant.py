"""Constant and the operators that make tensors from very little."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array, dtype_of_code, is_integer
from onnx_hw.onnx.operators.facts import OF_NO_DATA
from onnx_hw.onnx.operators.registry import Floats, Ints, Strings, earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, must_have_axes, same_dtype


@operator(since=(12, 13, 19, 21, 23, 24, 25), facts=OF_NO_DATA)
def Constant(
    *,
    sparse_value: Array | None = None,
    value: Array | None = None,
    value_float: float | None = None,
    value_floats: Floats | None = None,
    value_int: int | None = None,
    value_ints: Ints | None = None,
    value_string: str | None = None,
    value_strings: Strings | None = None,
) -> Array:
    """Return the one value that the node has; the zeros of a sparse one are already filled in."""
    values: list[Array] = [x for x in (sparse_value, value) if x is not None]
    if value_float is not None:
        values.append(np.array(value_float, np.float32))
    if value_floats is not None:
        values.append(np.array(value_floats, np.float32))
    if value_int is not None:
        values.append(np.array(value_int, np.int64))
    if value_ints is not None:
        values.append(np.array(value_ints, np.int64))
    if value_string is not None:
        values.append(np.array(value_string, np.object_))
    if value_strings is not None:
        values.append(np.array(value_strings, np.object_))
    if len(values) != 1:
        raise ValueError(f"Constant must have exactly one value, not {len(values)}")
    return values[0]


earlier(
    Constant,
    since=11,
    without=("value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings"),
)


@operator(since=(1, 9))
def Constant_1(*, value: Array) -> Array:
    return value


def constant_of_shape_type(shape: TensorType, *, value: Array | None = None) -> TensorType:
    assert shape.value is not None  # it decides the shape
    dtype = np.dtype(np.float32) if value is None else value.dtype
    return TensorType(dtype, tuple(shape.value.tolist()))


@operator(since=(9, 20, 21, 23, 24, 25), types=constant_of_shape_type, shape_inputs=(0,), facts=OF_NO_DATA)
def ConstantOfShape(shape: Array, *, value: Array | None = None) -> Array:
    """Fill a tensor with one value, by default float32 zero."""
    value = np.zeros(1, np.float32) if value is None else value
    return np.full(shape.tolist(), value.reshape(()), value.dtype)


def eye_like_type(x: TensorType, *, dtype: int | None = None, **_: int) -> TensorType:
    must_have_axes(x, 2, 2)
    return x if dtype is None else x.with_dtype(dtype_of_code(dtype))


@operator(since=(9, 22), types=eye_like_type, facts=OF_NO_DATA)
def EyeLike(x: Array, *, dtype: int | None = None, k: int = 0) -> Array:
    """Put ones on the k-th diagonal."""
    return np.eye(x.shape[0], x.shape[1], k=k).astype(x.dtype if dtype is None else dtype_of_code(dtype))


def range_type(start: TensorType, limit: TensorType, delta: TensorType, **_: int) -> TensorType:
    assert start.value is not None and limit.value is not None and delta.value is not None  # they decide the shape
    return TensorType(same_dtype(start, limit, delta), (range_length(start.value, limit.value, delta.value),))


@operator(since=11, types=range_type, shape_inputs=(0, 1, 2))
def Range_11(start: Array, limit: Array, delta: Array) -> Array:
    """Return ``start``, ``start + delta``, ... before ``limit``."""
    return _range(start, limit, delta, start.dtype)


@operator(since=27, types=range_type, shape_inputs=(0, 1, 2), facts=OF_NO_DATA)
def Range(start: Array, limit: Array, delta: Array, *, stash_type: int = 1) -> Array:
    """Return ``start``, ``start + delta``, ... before ``limit``; half floats are computed in ``stash_type``."""
    narrow = start.dtype.itemsize < 4 and not is_integer(start.dtype)
    return _range(start, limit, delta, dtype_of_code(stash_type) if narrow else start.dtype)


def range_length(start: Array, limit: Array, delta: Array) -> int:
    """Count the steps of ``delta`` between start and limit, in exact arithmetic.

    Raises:
        ValueError: ``delta`` is 0, or the number of steps is infinite.
    """
    first, last, step = (Fraction(x.reshape(()).astype(np.float64).item()) for x in (start, limit, delta))
    if is_integer(start.dtype):
        first, last, step = (Fraction(int(x.reshape(()))) for x in (start, limit, delta))
    if step == 0:
        raise ValueError("delta must not be 0")
    return max(math.ceil((last - first) / step), 0)


def _range(start: Array, limit: Array, delta: Array, dtype: np.dtype[Any]) -> Array:
    """Compute each element from the start, not from the one before."""
    first, last, step = (x.reshape(()).astype(dtype) for x in (start, limit, delta))
    count = range_length(first, last, step)
    return (first + np.arange(count).astype(dtype) * step).astype(start.dtype)
