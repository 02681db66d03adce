"""Constant and the operators that make tensors from next to nothing."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.registry import Floats, Ints, Strings, operator


@operator(since=(12, 13, 19, 21, 23, 24, 25))
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
    """The one value that is given; a sparse one arrives with its zeros filled in."""
    given: list[Array] = [x for x in (sparse_value, value) if x is not None]
    if value_float is not None:
        given.append(np.array(value_float, np.float32))
    if value_floats is not None:
        given.append(np.array(value_floats, np.float32))
    if value_int is not None:
        given.append(np.array(value_int, np.int64))
    if value_ints is not None:
        given.append(np.array(value_ints, np.int64))
    if value_string is not None:
        given.append(np.array(value_string, np.object_))
    if value_strings is not None:
        given.append(np.array(value_strings, np.object_))
    if len(given) != 1:
        raise ValueError(f"Constant must have exactly one value, not {len(given)}")
    return given[0]


@operator(since=11)
def Constant_11(*, sparse_value: Array | None = None, value: Array | None = None) -> Array:
    """Dense or sparse."""
    return Constant(sparse_value=sparse_value, value=value)


@operator(since=(1, 9))
def Constant_1(*, value: Array) -> Array:
    return value
