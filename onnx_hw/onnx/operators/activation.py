"""Activations: one value in, one value out. The formulas are those of the ONNX operator specification."""

from __future__ import annotations

import math

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array, is_integer, widen
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.tensor_type import TensorType, broadcast, like_first, onto_first, same_dtype
from onnx_hw.onnx.operators.unary import erf

_CONSUMED = ("consumed_inputs",)


@operator(since=(6, 13, 14), types=like_first, facts=Facts(Effect.BOUNDS))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


@operator(since=(11, 12, 13), types=like_first, facts=Facts(Effect.BOUNDS))
def Clip(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """Return ``min(max(x, low), high)``: the upper bound wins where the bounds cross."""
    if low is not None:
        x = np.maximum(x, _scalar(low))
    return x if high is None else np.minimum(x, _scalar(high))


@operator(since=6, types=like_first)
def Clip_6(x: Array, *, max: float = 3.4028234663852886e38, min: float = -3.4028234663852886e38) -> Array:
    """Clip to bounds that are attributes. In float16 the default bounds are infinities."""
    return np.minimum(np.maximum(x, x.dtype.type(min)), x.dtype.type(max))


@operator(since=1, types=like_first, hints=_CONSUMED)
def Clip_1(x: Array, *, max: float | None = None, min: float | None = None) -> Array:
    if min is not None:
        x = np.maximum(x, x.dtype.type(min))
    return x if max is None else np.minimum(x, x.dtype.type(max))


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS, within=(0, 1)))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Sigmoid(x: Array) -> Array:
    return sigmoid(widen(x)).astype(x.dtype, copy=False)


@operator(since=(6, 13), types=like_first, facts=Facts(Effect.BENDS, within=(-1, 1)))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Tanh(x: Array) -> Array:
    return np.tanh(x)


@operator(since=(6, 16), types=like_first, facts=Facts(Effect.BENDS))
@operator(since=1, types=like_first, hints=_CONSUMED)
def LeakyRelu(x: Array, *, alpha: float = 0.009999999776482582) -> Array:
    return np.where(x < 0, x * x.dtype.type(alpha), x)


def prelu_type(x: TensorType, slope: TensorType) -> TensorType:
    onto_first(x, slope)
    return TensorType(same_dtype(x, slope), x.shape)


@operator(since=(7, 9, 16), types=prelu_type, facts=Facts(Effect.BENDS))
def PRelu(x: Array, slope: Array) -> Array:
    """Return ``x``, or ``slope * x`` where it is negative; the slope broadcasts to ``x``."""
    return np.where(x < 0, x * slope, x)


def prelu_1_type(x: TensorType, slope: TensorType) -> TensorType:
    if slope.size not in (1, *x.shape[1:2]):
        raise ValueError(f"slope must have one entry, or one for each channel of {list(x.shape)}, not {slope.size}")
    return TensorType(same_dtype(x, slope), x.shape)


@operator(since=6, types=prelu_1_type)
@operator(since=1, types=prelu_1_type, hints=_CONSUMED)
def PRelu_1(x: Array, slope: Array) -> Array:
    """Apply one slope for all, or one per channel (axis 1)."""
    return PRelu(x, slope if slope.size == 1 else slope.reshape(-1, *(1,) * (x.ndim - 2)))


@operator(since=(6, 22), types=like_first, facts=Facts(Effect.BENDS))
@operator(since=1, types=like_first, hints=_CONSUMED)
def Elu(x: Array, *, alpha: float = 1.0) -> Array:
    return np.where(x < 0, np.expm1(np.minimum(x, x.dtype.type(0))) * x.dtype.type(alpha), x)


@operator(since=(6, 22), types=like_first, facts=Facts(Effect.BENDS))
def Selu(x: Array, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Array:
    return Elu(x, alpha=alpha) * x.dtype.type(gamma)


@operator(since=1, types=like_first, hints=_CONSUMED)
def Selu_1(x: Array, *, alpha: float = 1.673200011253357, gamma: float = 1.0506999492645264) -> Array:
    """Apply Selu with other default constants."""
    return Selu(x, alpha=alpha, gamma=gamma)


@operator(since=(12, 28), types=like_first, facts=Facts(Effect.BENDS))
def Celu(x: Array, *, alpha: float = 1.0) -> Array:
    scale = x.dtype.type(alpha)
    return np.where(x < 0, np.expm1(np.minimum(x, x.dtype.type(0)) / scale) * scale, x)


@operator(since=(6, 22), types=like_first, facts=Facts(Effect.BENDS, within=(0, 1)))
@operator(since=1, types=like_first, hints=_CONSUMED)
def HardSigmoid(x: Array, *, alpha: float = 0.20000000298023224, beta: float = 0.5) -> Array:
    one = x.dtype.type
    return np.clip(x * one(alpha) + one(beta), one(0), one(1))


@operator(since=(14, 22), types=like_first, facts=Facts(Effect.BENDS))
def HardSwish(x: Array) -> Array:
    return x * HardSigmoid(x, alpha=1 / 6, beta=0.5)


@operator(since=(1, 22), types=like_first, facts=Facts(Effect.BENDS))
def Softplus(x: Array) -> Array:
    return np.logaddexp(x, x.dtype.type(0))


@operator(since=(1, 22), types=like_first, facts=Facts(Effect.BENDS, within=(-1, 1)))
def Softsign(x: Array) -> Array:
    return x / (x.dtype.type(1) + np.abs(x))


@operator(since=(10, 22), types=like_first, facts=Facts(Effect.BENDS, jumps=True))
def ThresholdedRelu(x: Array, *, alpha: float = 1.0) -> Array:
    return np.where(x > x.dtype.type(alpha), x, x.dtype.type(0))


@operator(since=9, types=like_first, facts=Facts(Effect.BENDS, jumps=True))
def Shrink(x: Array, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    wide = x.astype(np.float64) if is_integer(x.dtype) else x
    one = wide.dtype.type
    y = np.where(wide < one(-lambd), wide + one(bias), np.where(wide > one(lambd), wide - one(bias), one(0)))
    return y.astype(x.dtype, copy=False)


@operator(since=(18, 22), types=like_first, facts=Facts(Effect.BENDS))
def Mish(x: Array) -> Array:
    return x * np.tanh(Softplus(x))


@operator(since=20, types=like_first, facts=Facts(Effect.BENDS))
def Gelu(x: Array, *, approximate: str = "none") -> Array:
    """Return ``x * (1 + erf(x / sqrt 2)) / 2``, or its approximation by a hyperbolic tangent."""
    wide = widen(x)
    if approximate == "none":
        y = wide * (1 + erf(wide / math.sqrt(2))) / 2
    elif approximate == "tanh":
        y = wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))) / 2
    else:
        raise ValueError(f"approximate must be none or tanh, not {approximate}")
    return y.astype(x.dtype)


@operator(since=24, types=like_first, facts=Facts(Effect.BENDS))
def Swish(x: Array, *, alpha: float = 1.0) -> Array:
    wide = widen(x)
    return (wide * sigmoid(wide * wide.dtype.type(alpha))).astype(x.dtype, copy=False)


@operator(since=28, types=broadcast)
def SwiGLU(a: Array, b: Array, *, alpha: float = 1.0) -> Array:
    if a.shape != b.shape:
        raise ValueError(f"A and B must have one shape, not {list(a.shape)} and {list(b.shape)}")
    return Swish(a, alpha=alpha) * b


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))`` in the dtype of ``x``, without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, x.dtype.type(1)) / (x.dtype.type(1) + small)


def _scalar(bound: Array) -> Array:
    if bound.size != 1:
        raise ValueError(f"a bound must be a scalar, not of shape {list(bound.shape)}")
    return bound.reshape(())
