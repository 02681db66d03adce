"""Operators of ``ai.onnx.ml`` on features: rows of numbers or of categories.

A row is the last axis; a tensor of one axis is one row.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from onnx_hw.onnx.operators.allowance import hold
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Facts
from onnx_hw.onnx.operators.registry import Floats, Ints, Strings, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, like_first

DOMAIN: Final = "ai.onnx.ml"


def float_like_first(x: TensorType, *_: Any, **__: Any) -> TensorType:
    """Return a float for each element of the first input."""
    return x.with_dtype(np.float32)


def extracted_type(x: TensorType, y: TensorType) -> TensorType:
    if not x.ndim:
        raise ValueError("the data must have at least one axis")
    if y.value is not None:
        _check_places(y.value, x.shape[-1])
    return x.with_shape((*(x.shape[:-1] or (1,)), y.size))


@operator(since=1, domain=DOMAIN, types=extracted_type, facts=Facts(along_axis=True))
def ArrayFeatureExtractor(x: Array, y: Array) -> Array:
    """Take these columns of each row."""
    places = y.reshape(-1)
    _check_places(places, x.shape[-1])
    hold((*x.shape[:-1], places.size), x.dtype)
    return np.atleast_2d(x)[..., places]


def _check_places(places: Array, columns: int) -> None:
    """Check that there are columns at these places.

    Raises:
        ValueError: a place is outside the columns.
    """
    if places.size and not 0 <= places.min() <= places.max() < columns:
        raise ValueError(f"columns must be within 0..{columns - 1}, not {places.tolist()}")


@operator(since=1, domain=DOMAIN, types=like_first, facts=Facts(along_axis=True))
def Binarizer(x: Array, *, threshold: float = 0.0) -> Array:
    return np.asarray(x > threshold).astype(x.dtype)


def vectorized_type(*inputs: TensorType, inputdimensions: Ints | None = None) -> TensorType:
    lengths = [x.shape[-1] if x.ndim else 1 for x in inputs] if inputdimensions is None else inputdimensions
    rows = {x.shape[0] if x.ndim > 1 else 1 for x in inputs}
    if len(rows) > 1 or len(lengths) != len(inputs):
        raise ValueError(f"{len(inputs)} inputs must have one number of rows, and a length each: {rows}, {lengths}")
    return TensorType(np.dtype(np.float32), (rows.pop(), sum(lengths)))


@operator(since=1, domain=DOMAIN, types=vectorized_type, facts=Facts(along_axis=True))
def FeatureVectorizer(*inputs: Array, inputdimensions: Ints | None = None) -> Array:
    """Join the rows of all inputs, each cut to its stated length or filled up with zeros."""
    vectorized_type(*(TensorType(x.dtype, x.shape) for x in inputs), inputdimensions=inputdimensions)
    parts = []
    for k, x in enumerate(inputs):
        rows = x.reshape(len(x) if x.ndim > 1 else 1, -1).astype(np.float32)
        length = rows.shape[1] if inputdimensions is None else inputdimensions[k]
        hold((len(rows), max(length, rows.shape[1])), np.float32)
        parts.append(np.pad(rows, ((0, 0), (0, max(0, length - rows.shape[1]))))[:, :length])
    return np.concatenate(parts, 1)


@operator(since=1, domain=DOMAIN, types=like_first, facts=Facts(along_axis=True))
def Imputer(
    x: Array,
    *,
    imputed_value_floats: Floats | None = None,
    imputed_value_int64s: Ints | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Array:
    """Replace a value, which may be NaN, by one number, or by one per column."""
    is_float = x.dtype.kind == "f"
    values: Floats | Ints | None = imputed_value_floats if is_float else imputed_value_int64s
    if not values:
        raise ValueError(f"imputed_value_{'floats' if is_float else 'int64s'} must have a value")
    _check_columns(x, len(values))
    replaced = replaced_value_float if is_float else replaced_value_int64
    missing = np.isnan(x) if is_float and np.isnan(replaced) else x == x.dtype.type(replaced)
    return np.where(missing, np.array(values, x.dtype), x)


@operator(since=1, domain=DOMAIN, types=float_like_first, facts=Facts(along_axis=True))
def Normalizer(x: Array, *, norm: str = "MAX") -> Array:
    """Divide each row by its greatest number (MAX), its sum of magnitudes (L1) or its length (L2), unless that is 0."""
    if x.ndim not in (1, 2):
        raise ValueError(f"the data must have one or two axes, not {x.ndim}")
    rows = x.astype(np.float32)
    norms = {
        "MAX": lambda: rows.max(-1, keepdims=True),
        "L1": lambda: np.abs(rows).sum(-1, keepdims=True),
        "L2": lambda: np.sqrt(np.square(rows).sum(-1, keepdims=True)),
    }
    if norm not in norms:
        raise ValueError(f"norm must be MAX, L1 or L2, not {norm}")
    size = norms[norm]()
    return rows / np.where(size == 0, np.float32(1), size)


def one_hot_type(
    x: TensorType, *, cats_int64s: Ints | None = None, cats_strings: Strings | None = None, **_: Any
) -> TensorType:
    return TensorType(np.dtype(np.float32), (*x.shape, len(cats_int64s or cats_strings or ())))


@operator(since=1, domain=DOMAIN, types=one_hot_type, facts=Facts(along_axis=True))
def OneHotEncoder(
    x: Array, *, cats_int64s: Ints | None = None, cats_strings: Strings | None = None, zeros: int = 1
) -> Array:
    """Put 1 at the place of each category on a new last axis, 0 elsewhere; only zeros where it has none."""
    categories: list[Any] = list(cats_int64s or cats_strings or ())
    hold((*x.shape, len(categories)), np.float32)
    known = x if x.dtype == object else np.trunc(x)
    y = np.stack([known == category for category in categories], -1).astype(np.float32)
    if not zeros and not y.any(-1).all():
        raise ValueError("every input must be one of the categories (attribute zeros is 0)")
    return y


@operator(since=1, domain=DOMAIN, types=float_like_first, facts=Facts(along_axis=True))
def Scaler(x: Array, *, offset: Floats | None = None, scale: Floats | None = None) -> Array:
    """Return ``(x - offset) * scale``; both are one number, or one per column."""
    if not offset or not scale or len(offset) != len(scale):
        raise ValueError("offset and scale must have one length")
    _check_columns(x, len(scale))
    wide = x.astype(np.float32, copy=False)
    return (wide - np.array(offset, np.float32)) * np.array(scale, np.float32)


def _check_columns(x: Array, count: int) -> None:
    """Check that there is one number, or one per column of a row or a matrix.

    Raises:
        ValueError: there is another count of them.
    """
    if count > 1 and (x.ndim not in (1, 2) or count != x.shape[-1]):
        raise ValueError(f"there must be one number, or one per column of a matrix, not {count} for {list(x.shape)}")
