"""Activations: one value in, one value out. The formulas are those of the ONNX operator specification."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import like_first, normal_axis

_CONSUMED = ("consumed_inputs",)


@operator(since=(6, 13, 14), types=like_first)
@operator(since=1, types=like_first, hints=_CONSUMED)
def Relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


@operator(since=(11, 12, 13), types=like_first)
def Clip(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """``min(max(x, low), high)``: the upper bound wins where the bounds cross."""
    if low is not None:
        x = np.maximum(x, _scalar(low))
    return x if high is None else np.minimum(x, _scalar(high))


@operator(since=6, types=like_first)
def Clip_6(x: Array, *, min: float = -3.4028234663852886e38, max: float = 3.4028234663852886e38) -> Array:
    with np.errstate(over="ignore"):  # float16 has no room for the defaults: they become infinities
        return np.minimum(np.maximum(x, x.dtype.type(min)), x.dtype.type(max))


@operator(since=1, types=like_first, hints=_CONSUMED)
def Clip_1(x: Array, *, min: float | None = None, max: float | None = None) -> Array:
    if min is not None:
        x = np.maximum(x, x.dtype.type(min))
    return x if max is None else np.minimum(x, x.dtype.type(max))


@operator(since=13, types=like_first)
def Softmax(x: Array, *, axis: int = -1) -> Array:
    return softmax(x, (normal_axis(axis, x.ndim),))


@operator(since=(1, 11), types=like_first)
def Softmax_1(x: Array, *, axis: int = 1) -> Array:
    """Over ``axis`` and all axes behind it together."""
    return softmax(x, flat_axes(x, axis))


@operator(since=13, types=like_first)
def LogSoftmax(x: Array, *, axis: int = -1) -> Array:
    return log_softmax(x, (normal_axis(axis, x.ndim),))


@operator(since=(1, 11), types=like_first)
def LogSoftmax_1(x: Array, *, axis: int = 1) -> Array:
    """Over ``axis`` and all axes behind it together."""
    return log_softmax(x, flat_axes(x, axis))


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """``exp(x) / sum(exp(x))`` over the axes, shifted by the maximum so that nothing overflows."""
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    if wide.size == 0:
        return x.copy()
    powers = np.exp(wide - wide.max(axis=axes, keepdims=True))
    powers /= powers.sum(axis=axes, keepdims=True)
    return powers.astype(x.dtype, copy=False)


def log_softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """``log(softmax(x))`` without computing the quotient."""
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    if wide.size == 0:
        return x.copy()
    shifted = wide - wide.max(axis=axes, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axes, keepdims=True))
    return shifted.astype(x.dtype, copy=False)


def flat_axes(x: Array, axis: int) -> tuple[int, ...]:
    """``axis`` and all behind it: what was flattened into one row before opset 13."""
    return tuple(range(normal_axis(axis, x.ndim) if axis != x.ndim else axis, x.ndim))


def _scalar(bound: Array) -> Array:
    if bound.size != 1:
        raise ValueError(f"a bound must be a scalar, not of shape {list(bound.shape)}")
    return bound.reshape(())
