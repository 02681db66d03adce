"""Operators on strings, and TfIdfVectorizer. Strings are Python ``str`` in arrays of dtype object."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.allowance import hold
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.registry import Floats, Ints, Strings, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, bool_like_first, broadcast


@operator(since=20, types=broadcast)
def StringConcat(x: Array, y: Array) -> Array:
    long = sum(max(map(len, array.reshape(-1)), default=0) for array in (x, y))
    hold((long, *np.broadcast_shapes(x.shape, y.shape)), np.int32)
    return np.asarray(np.add(x, y), dtype=object)


@operator(since=20, dynamic=True)
def StringSplit(x: Array, *, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[Array, Array]:
    """Split each string; return the pieces on a new last axis, filled up with empty ones, and their number."""
    most = -1 if maxsplit is None else maxsplit
    pieces = [text.split(delimiter or None, most) for text in x.reshape(-1)]
    longest = max(map(len, pieces), default=0)
    hold((longest, *x.shape), object)
    y = np.array([piece + [""] * (longest - len(piece)) for piece in pieces], object).reshape(*x.shape, longest)
    return y, np.array([len(piece) for piece in pieces], np.int64).reshape(x.shape)


@operator(since=20, types=bool_like_first)
def RegexFullMatch(x: Array, *, pattern: str | None = None) -> Array:
    """Tell whether the whole string matches the regular expression."""
    matches = re.compile(pattern or "").fullmatch
    return np.array([matches(text) is not None for text in x.reshape(-1)], bool).reshape(x.shape)


@operator(since=10, dynamic=True)
def StringNormalizer(
    x: Array,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str | None = None,
    stopwords: Strings | None = None,
) -> Array:
    """Remove stop words and change the case of [C] or [1, C] strings; one empty string where none is left."""
    actions: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    if case_change_action not in actions:
        raise ValueError(f"case_change_action must be NONE, LOWER or UPPER, not {case_change_action}")
    if locale not in (None, "", "C", "en_US", "en_US.UTF-8"):
        raise ValueError(f"locale must be en_US, not {locale}")
    fold = str if is_case_sensitive else str.lower
    stops = {fold(word) for word in stopwords or ()}
    kept = [actions[case_change_action](text) for text in x.reshape(-1) if fold(text) not in stops] or [""]
    return np.array(kept, object).reshape(*x.shape[:-1], -1)


def tf_idf_type(x: TensorType, *, ngram_indexes: Ints, **_: Any) -> TensorType:
    return x.with_shape((*x.shape[:-1], max(ngram_indexes) + 1)).with_dtype(np.float32)


@operator(since=9, types=tf_idf_type)
def TfIdfVectorizer(
    x: Array,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Ints,
    ngram_indexes: Ints,
    pool_int64s: Ints | None = None,
    pool_strings: Strings | None = None,
    weights: Floats | None = None,
) -> Array:
    """Count the n-grams of the pool in each row, gaps of up to ``max_skip_count`` included."""
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ValueError(f"mode must be TF, IDF or TFIDF, not {mode}")
    places = _pool_places(pool_strings if pool_int64s is None else pool_int64s, ngram_counts, ngram_indexes)
    factor = np.ones(max(ngram_indexes) + 1, np.float32)
    if weights is not None and mode != "TF":
        factor[list(ngram_indexes)] = weights
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    y = np.zeros((len(rows), len(factor)), np.float32)
    for row, counts in zip(rows.tolist(), y, strict=True):
        for gram, count in _grams(row, min_gram_length, max_gram_length, max_skip_count).items():
            if gram in places:
                counts[places[gram]] += count
    y = np.minimum(y, 1) if mode == "IDF" else y
    return (y * factor).reshape(*x.shape[:-1], -1)


def _pool_places(pool: Ints | Strings | None, starts: Ints, indexes: Ints) -> dict[tuple[Any, ...], int]:
    """Return the position of each n-gram's count. ``starts[n - 1]`` is the position of the first n-gram in the pool."""
    entries = list(pool or ())
    grams: list[tuple[Any, ...]] = []
    for n, start in enumerate(starts, start=1):
        end = starts[n] if n < len(starts) else len(entries)
        grams += [tuple(entries[k : k + n]) for k in range(start, end, n)]
    return dict(zip(grams, indexes, strict=True))


def _grams(row: list[Any], shortest: int, longest: int, skips: int) -> Counter[tuple[Any, ...]]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for n in range(shortest, longest + 1):
        for skip in range(1 if n == 1 else skips + 1):
            span = (n - 1) * (skip + 1)
            counts.update(tuple(row[k : k + span + 1 : skip + 1]) for k in range(len(row) - span))
    return counts
