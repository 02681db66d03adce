"""Softmax and its variants: LogSoftmax and Hardmax."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.dtypes import Array, widen
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import like_first, normal_axis

SINGLE_AXIS_OPSET = 13
"""First version of a Softmax over one axis."""


@operator(since=SINGLE_AXIS_OPSET, types=like_first, facts=Facts(Effect.NORMALIZES, along_axis=True))
def Softmax(x: Array, *, axis: int = -1) -> Array:
    return softmax(x, (normal_axis(axis, x.ndim),))


@operator(since=(1, 11), types=like_first)
def Softmax_1(x: Array, *, axis: int = 1) -> Array:
    """Apply Softmax over ``axis`` and all axes behind it together."""
    return softmax(x, flat_axes(x, axis))


@operator(since=13, types=like_first, facts=Facts(along_axis=True))
def LogSoftmax(x: Array, *, axis: int = -1) -> Array:
    return log_softmax(x, (normal_axis(axis, x.ndim),))


@operator(since=(1, 11), types=like_first)
def LogSoftmax_1(x: Array, *, axis: int = 1) -> Array:
    """Apply LogSoftmax over ``axis`` and all axes behind it together."""
    return log_softmax(x, flat_axes(x, axis))


@operator(since=13, types=like_first, facts=Facts(along_axis=True))
def Hardmax(x: Array, *, axis: int = -1) -> Array:
    """Put 1 at the first maximum along the axis, 0 elsewhere."""
    y = np.zeros_like(x)
    np.put_along_axis(y, np.expand_dims(x.argmax(axis=axis), axis), x.dtype.type(1), axis)
    return y


@operator(since=(1, 11), types=like_first)
def Hardmax_1(x: Array, *, axis: int = 1) -> Array:
    """Apply Hardmax over ``axis`` and all axes behind it together."""
    first = min(flat_axes(x, axis), default=x.ndim)
    flat = x.reshape(*x.shape[:first], -1)
    return Hardmax(flat, axis=-1).reshape(x.shape)


def softmax_axes(node: Node, rank: int) -> tuple[int, ...]:
    """Return the axes that a Softmax, LogSoftmax or Hardmax goes over: one of them, before opset 13 all from one on."""
    if node.version >= SINGLE_AXIS_OPSET:
        return (int(node.attributes.get("axis", -1)) % rank,)
    return tuple(range(int(node.attributes.get("axis", 1)) % rank, rank))


def softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """Return ``exp(x) / sum(exp(x))`` over the axes, shifted by the maximum so that nothing overflows."""
    wide = widen(x)
    if wide.size == 0:
        return x.copy()
    powers = np.exp(wide - wide.max(axis=axes, keepdims=True))
    powers /= powers.sum(axis=axes, keepdims=True)
    return powers.astype(x.dtype, copy=False)


def log_softmax(x: Array, axes: tuple[int, ...]) -> Array:
    """Return ``log(softmax(x))`` without computing the quotient."""
    wide = widen(x)
    if wide.size == 0:
        return x.copy()
    shifted = wide - wide.max(axis=axes, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axes, keepdims=True))
    return shifted.astype(x.dtype, copy=False)


def flat_axes(x: Array, axis: int) -> tuple[int, ...]:
    """Return ``axis`` and all behind it: what was flattened into one row before opset 13."""
    return tuple(range(axis if axis == x.ndim else normal_axis(axis, x.ndim), x.ndim))
