"""Dtypes that operators compute with: numpy's own, and those of ``ml_dtypes`` for what numpy lacks.

A model holds a bfloat16 tensor as float32 values (see ``graph.element_types``). To compute with it, its type must be
visible in the array itself, since it decides how results are rounded: ``to_compute_dtype`` gives the array that dtype,
``to_model_dtype`` takes it off again. Both are exact.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from onnx_hw.onnx.graph.element_types import BY_CODE, BY_NAME, ELEMENT_TYPES, element_type_of

Array = np.ndarray[Any, np.dtype[Any]]

_NARROW = {element.name: element.narrow for element in ELEMENT_TYPES if element.narrow is not None}
_NAME_OF_NARROW = {dtype: name for name, dtype in _NARROW.items()}
_NARROW_INTEGERS = frozenset(_NARROW[name] for name in ("uint4", "int4", "uint2", "int2"))


def dtype_of_name(element_type: str) -> np.dtype[Any]:
    """Return the dtype of an element type such as ``float`` or ``uint4``; KeyError if there is no such type."""
    return _NARROW[element_type] if element_type in _NARROW else BY_NAME[element_type].dtype


def dtype_of_code(code: int) -> np.dtype[Any]:
    """Return the dtype of a ``TensorProto.DataType`` number; raise ``ValueError`` where there is no such type."""
    if code not in BY_CODE:
        raise ValueError(f"an element type must be one of 1..{max(BY_CODE)}, not {code}")
    return dtype_of_name(BY_CODE[code].name)


def name_of_dtype(dtype: np.dtype[Any]) -> str:
    """Return the element type of a dtype, strings included; KeyError if ONNX has no such type."""
    if dtype in _NAME_OF_NARROW:
        return _NAME_OF_NARROW[dtype]
    try:
        return element_type_of(dtype).name
    except StopIteration:
        raise KeyError(dtype) from None


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype is a signed or unsigned integer of any width, 2 bits included."""
    return dtype.kind in "iu" or dtype in _NARROW_INTEGERS


def is_signed(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype is an integer that can be negative."""
    return integer_range(dtype)[0] < 0


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the lowest and the highest value of an integer type."""
    info: Any = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return int(info.min), int(info.max)


def greatest(dtype: np.dtype[Any]) -> float:
    """Return the largest finite number of a float type."""
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def to_compute_dtype(values: Array, element_type: str) -> Array:
    """Convert an array, as the model holds it, to the dtype that determines its element type."""
    dtype = _NARROW.get(element_type)
    return values if dtype is None else values.astype(dtype, copy=False)


def to_model_dtype(values: Any) -> Any:
    """Convert an array, or each of a sequence, to the dtype in which a model holds it; undoes ``to_compute_dtype``."""
    if isinstance(values, list):
        return [to_model_dtype(value) for value in values]
    if isinstance(values, np.ndarray) and values.dtype in _NAME_OF_NARROW:
        return values.astype(BY_NAME[_NAME_OF_NARROW[values.dtype]].dtype)
    return values


def widen(x: Array) -> Array:
    """Return ``x``, in float32 when its floats are narrower: what sums and transcendental functions compute in."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x
