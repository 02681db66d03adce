"""Reductions over axes: ReduceSum and its variants, ArgMax, ArgMin, CumSum, CumProd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array, integer_range, is_integer, widen
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import Ints, earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, like_first, normal_axes, normal_axis

Reducer = Callable[[Array, tuple[int, ...], bool], Array]


def reduced_type(
    x: TensorType, axes: TensorType | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> TensorType:
    """Infer the type; the axes are an input."""
    return x.with_shape(reduced_shape(x.shape, None if axes is None else axes.value, keepdims, noop_with_empty_axes))


def reduced_1_type(x: TensorType, *, axes: Ints | None = None, keepdims: int = 1) -> TensorType:
    """Infer the type; the axes are an attribute."""
    return x.with_shape(reduced_shape(x.shape, axes, keepdims))


def reduced_shape(
    shape: tuple[int, ...], axes: Sequence[int] | Array | None, keepdims: int, noop_with_empty_axes: int = 0
) -> tuple[int, ...]:
    removed = reduced_axes(len(shape), axes, noop_with_empty_axes)
    if keepdims:
        return tuple(1 if axis in removed else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in removed)


def reduced_axes(rank: int, axes: Sequence[int] | Array | None, noop_with_empty_axes: int = 0) -> tuple[int, ...]:
    """Return the axes to reduce; without stated axes all, or none with ``noop_with_empty_axes``."""
    stated = [] if axes is None else [int(axis) for axis in axes]
    if not stated:
        return () if noop_with_empty_axes else tuple(range(rank))
    return normal_axes(stated, rank)


def reduce(
    compute: Reducer, x: Array, axes: Sequence[int] | Array | None, keepdims: int, noop_with_empty_axes: int = 0
) -> Array:
    """Reduce in float32 at least; the result has the type of ``x``."""
    wide = x if is_integer(x.dtype) or x.dtype.kind == "b" else widen(x)
    y = compute(wide, reduced_axes(x.ndim, axes, noop_with_empty_axes), bool(keepdims))
    return np.asarray(y).astype(x.dtype, copy=False)


def _sum(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.sum(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def _prod(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.prod(x, axis=axes, keepdims=keepdims, dtype=x.dtype)


def mean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Average in float64: the mean of quantized values is often a tie when it is quantized again, and must stay one."""
    return np.asarray(np.mean(x, axis=axes, keepdims=keepdims, dtype=np.float64))


def _max(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.max(x, axis=axes, keepdims=keepdims, initial=_bounds(x.dtype)[0])


def _min(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.min(x, axis=axes, keepdims=keepdims, initial=_bounds(x.dtype)[1])


def _l1(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _sum(np.abs(x), axes, keepdims)


def _l2(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.sqrt(_sum_square(x, axes, keepdims))


def _sum_square(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _sum(np.square(x), axes, keepdims)


def _log_sum(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.log(_sum(x, axes, keepdims))


def _log_sum_exp(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Compute log(sum(exp(x))), shifted by the maximum, so that nothing overflows."""
    wide = x.astype(np.float64) if is_integer(x.dtype) else x
    most = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
    most = np.where(np.isfinite(most), most, 0).astype(wide.dtype)
    sums = np.log(np.sum(np.exp(wide - most), axis=axes, keepdims=True)) + most
    return sums if keepdims else np.squeeze(sums, axis=axes)


def _bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the maximum and the minimum of no elements."""
    if dtype.kind == "b":
        return False, True
    return integer_range(dtype) if is_integer(dtype) else (-np.inf, np.inf)


def reduction(
    name: str, compute: Reducer, since: int | tuple[int, ...], before: tuple[int, ...], facts: Facts | None = None
) -> None:
    """Register a reduction whose axes are an input, and its versions ``before``, of which they were an attribute."""

    def function(x: Array, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Array:
        return reduce(compute, x, axes, keepdims, noop_with_empty_axes)

    def of_attributes(x: Array, *, axes: Ints | None = None, keepdims: int = 1) -> Array:
        return reduce(compute, x, axes, keepdims)

    operator(since=since, name=name, types=reduced_type, shape_inputs=(1,), facts=facts)(function)
    operator(since=before, name=name, types=reduced_1_type)(of_attributes)


reduction("ReduceSum", _sum, 13, (1, 11), Facts(Effect.SUMS))
reduction("ReduceMean", mean, 18, (1, 11, 13), Facts(Effect.SUMS))
reduction("ReduceMax", _max, (18, 20), (1, 11, 12, 13), Facts(Effect.KEEPS))
reduction("ReduceMin", _min, (18, 20), (1, 11, 12, 13), Facts(Effect.KEEPS))
reduction("ReduceProd", _prod, 18, (1, 11, 13))
reduction("ReduceL1", _l1, 18, (1, 11, 13))
reduction("ReduceL2", _l2, 18, (1, 11, 13))
reduction("ReduceSumSquare", _sum_square, 18, (1, 11, 13))
reduction("ReduceLogSum", _log_sum, (18, 28), (1, 11, 13))
reduction("ReduceLogSumExp", _log_sum_exp, (18, 28), (1, 11, 13))


def arg_type(x: TensorType, *, axis: int = 0, keepdims: int = 1, **_: int) -> TensorType:
    return x.with_shape(reduced_shape(x.shape, (axis,), keepdims)).with_dtype(np.int64)


def position(name: str, find: Callable[..., Array]) -> None:
    """Register an operator that gives the position of an extreme element; before opset 12 of the first one."""

    def function(x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        return _arg(find, x, axis, keepdims, select_last_index)

    operator(since=(12, 13), name=name, types=arg_type, facts=Facts(Effect.PICKS))(function)
    earlier(function, since=(1, 11), without=("select_last_index",))


position("ArgMax", np.argmax)
position("ArgMin", np.argmin)


def _arg(find: Callable[..., Array], x: Array, axis: int, keepdims: int, last: int) -> Array:
    axis = normal_axis(axis, x.ndim)
    if last:
        y = x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis)
    else:
        y = find(x, axis=axis)
    return (np.expand_dims(y, axis) if keepdims else np.asarray(y)).astype(np.int64)


@operator(since=(11, 14), types=like_first)
def CumSum(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    return _cumulate(np.cumsum, x, axis, exclusive, reverse, 0)


@operator(since=26, types=like_first)
def CumProd(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
    return _cumulate(np.cumprod, x, axis, exclusive, reverse, 1)


def _cumulate(
    compute: Callable[..., Array], x: Array, axis: Array, exclusive: int, reverse: int, neutral: int
) -> Array:
    """Accumulate along one axis; ``exclusive``: all elements before each one, beginning with the neutral element."""
    along = normal_axis(int(axis.reshape(())), x.ndim)
    x = np.flip(x, along) if reverse else x
    y = compute(x, axis=along, dtype=x.dtype)
    if exclusive and x.shape[along]:
        first = np.full_like(np.take(y, [0], axis=along), neutral)
        y = np.concatenate([first, np.delete(y, -1, axis=along)], axis=along)
    return np.flip(y, along) if reverse else y
