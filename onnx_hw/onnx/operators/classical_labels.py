"""Operators of ``ai.onnx.ml`` on labels, and on maps (Python dicts) from labels to numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.allowance import hold
from onnx_hw.onnx.operators.classical_features import DOMAIN
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Facts
from onnx_hw.onnx.operators.registry import Floats, Ints, Strings, operator
from onnx_hw.onnx.operators.tensor_type import TensorType

Map = dict[int | str, Any]

UNKNOWN = "_Unused"
"""Text for a label that is not known."""


def mapped_type(x: TensorType, **_: Any) -> TensorType:
    return x.with_dtype(np.int64 if x.dtype == object else np.dtype(object))


@operator(since=1, domain=DOMAIN, types=mapped_type, facts=Facts(along_axis=True))
def CategoryMapper(
    x: Array,
    *,
    cats_int64s: Ints | None = None,
    cats_strings: Strings | None = None,
    default_int64: int = -1,
    default_string: str = UNKNOWN,
) -> Array:
    """Return the number of each text, or the text of each number."""
    numbers, texts = cats_int64s or (), cats_strings or ()
    if len(numbers) != len(texts):
        raise ValueError(f"cats_int64s and cats_strings must have one length, not {len(numbers)} and {len(texts)}")
    if x.dtype == object:
        return _looked_up(x, texts, np.array(numbers, np.int64), np.int64(default_int64))
    return _looked_up(x, numbers, np.array(texts, object), default_string)


@operator(since=1, domain=DOMAIN, types=mapped_type)
def LabelEncoder_1(
    x: Array, *, classes_strings: Strings | None = None, default_int64: int = -1, default_string: str = UNKNOWN
) -> Array:
    """Return the position of each text in the list, or the text at each position."""
    texts = classes_strings or ()
    if x.dtype == object:
        return _looked_up(x, texts, np.arange(len(texts)), np.int64(default_int64))
    return _looked_up(x, range(len(texts)), np.array(texts, object), default_string)


def numbered_labels(node: Node) -> tuple[Ints | Strings, int | str] | None:
    """Return the labels that a LabelEncoder gives to the numbers 0, 1, ..., and that of any other number; None for
    another node or other keys.
    """
    given = node.attributes
    labels = given.get("values_strings") or given.get("values_int64s")
    if node.op_type != "LabelEncoder" or not labels or given.get("keys_int64s") != tuple(range(len(labels))):
        return None
    other = given.get("default_string", UNKNOWN) if "values_strings" in given else given.get("default_int64", -1)
    return labels, other


def encoded_type(
    x: TensorType,
    *,
    values_tensor: Array | None = None,
    values_int64s: Ints | None = None,
    values_strings: Strings | None = None,
    **_: Any,
) -> TensorType:
    if values_tensor is not None:
        return x.with_dtype(values_tensor.dtype)
    kind: Any = np.int64 if values_int64s is not None else object if values_strings is not None else np.float32
    return x.with_dtype(kind)


@operator(since=4, domain=DOMAIN, types=encoded_type, facts=Facts(along_axis=True))
def LabelEncoder(
    x: Array,
    *,
    keys_floats: Floats | None = None,
    keys_int64s: Ints | None = None,
    keys_strings: Strings | None = None,
    keys_tensor: Array | None = None,
    values_floats: Floats | None = None,
    values_int64s: Ints | None = None,
    values_strings: Strings | None = None,
    values_tensor: Array | None = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = UNKNOWN,
    default_tensor: Array | None = None,
) -> Array:
    """Return the value at the place of each element among the keys; NaN equals NaN."""
    keys = _only("keys", keys_floats, keys_int64s, keys_strings, keys_tensor)
    values = _only("values", values_floats, values_int64s, values_strings, values_tensor)
    defaults: dict[str, Any] = {"f": default_float, "i": default_int64, "O": default_string}
    default = defaults[values.dtype.kind] if default_tensor is None else default_tensor.reshape(-1)[0]
    if len(keys) != len(values):
        raise ValueError(f"there must be a value for each key, not {len(values)} for {len(keys)}")
    return _looked_up(x, keys.tolist(), values, default)


@operator(since=2, domain=DOMAIN, types=encoded_type)
def LabelEncoder_2(
    x: Array,
    *,
    keys_floats: Floats | None = None,
    keys_int64s: Ints | None = None,
    keys_strings: Strings | None = None,
    values_floats: Floats | None = None,
    values_int64s: Ints | None = None,
    values_strings: Strings | None = None,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = UNKNOWN,
) -> Array:
    """Return the value at the place of each element among the keys; NaN is no key."""
    keys = _only("keys", keys_floats, keys_int64s, keys_strings, None)
    values = _only("values", values_floats, values_int64s, values_strings, None)
    if len(keys) != len(values):
        raise ValueError(f"there must be a value for each key, not {len(values)} for {len(keys)}")
    defaults: dict[str, Any] = {"f": default_float, "i": default_int64, "O": default_string}
    y = _looked_up(x, keys.tolist(), values, defaults[values.dtype.kind])
    return y if x.dtype.kind != "f" else np.where(np.isnan(x), values.dtype.type(defaults[values.dtype.kind]), y)


@operator(since=1, domain=DOMAIN, dynamic=True, facts=Facts(along_axis=True))
def ZipMap(
    x: Array, *, classlabels_int64s: Ints | None = None, classlabels_strings: Strings | None = None
) -> list[Map]:
    """Return a map from label to number for each row."""
    labels: Sequence[Any] = classlabels_int64s or classlabels_strings or ()
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise ValueError(f"the rows of {list(x.shape)} must have a number for each of {len(labels)} labels")
    return [dict(zip(labels, row, strict=True)) for row in rows.tolist()]


@operator(since=1, domain=DOMAIN, dynamic=True)
def CastMap(x: Map, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Array:
    """Return the values of a map as a row, in the order of the keys, or (SPARSE) each at the place of its key."""
    casts: dict[str, Any] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}
    if cast_to not in casts or map_form not in ("DENSE", "SPARSE"):
        raise ValueError(f"{cast_to} and {map_form} must be one of {', '.join(casts)}, and DENSE or SPARSE")
    kind = casts[cast_to]
    entries = sorted(x.items())
    values = [str(value) if kind is object else kind(float(value)) for _, value in entries]
    if map_form == "DENSE":
        return np.array([values], kind)
    hold((max_map,))
    row = np.full((1, max_map), "" if kind is object else 0, kind)
    for (key, _), value in zip(entries, values, strict=True):
        if 0 <= int(key) < max_map:
            row[0, int(key)] = value
    return row


@operator(since=1, domain=DOMAIN, dynamic=True)
def DictVectorizer(x: Map, *, int64_vocabulary: Ints | None = None, string_vocabulary: Strings | None = None) -> Array:
    """Return the values of a map as a row, in the order of the vocabulary; 0 or "" for a key that the map lacks."""
    values = list(x.values())
    texts = bool(values) and isinstance(values[0], str)
    kind: Any = object if texts else np.int64 if values and isinstance(values[0], (int, np.int64)) else np.float32
    empty: Any = "" if texts else 0
    return np.array([[x.get(key, empty) for key in int64_vocabulary or string_vocabulary or ()]], kind)


def _only(what: str, *given: Sequence[Any] | Array | None) -> Array:
    """Return the one list of keys or values as an array; which it is says its type.

    Raises:
        ValueError: there is not exactly one.
    """
    present = [(values, kind) for values, kind in zip(given, _KINDS, strict=True) if values is not None]
    if len(present) != 1:
        raise ValueError(f"there must be exactly one list of {what}, not {len(present)}")
    ((values, kind),) = present
    return np.asarray(values, kind).reshape(-1)


_KINDS: tuple[Any, ...] = (np.float32, np.int64, object, None)


def _looked_up(x: Array, keys: Sequence[Any], values: Array, default: Any) -> Array:
    """Return the value of each element of ``x``, or the default where it is no key; the last of equal keys counts."""
    table = dict(zip(keys, values.tolist(), strict=True))
    of_nan = next((value for key, value in table.items() if key != key), default)
    results = [of_nan if entry != entry else table.get(entry, default) for entry in x.reshape(-1).tolist()]
    return np.array(results, values.dtype).reshape(x.shape)
