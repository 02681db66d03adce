"""Normalizations: BatchNormalization and those that compute their own statistics.

Statistics are computed in float32 at least, means first, so that no large squares are subtracted from each other.
"""

from __future__ import annotations

import math

import numpy as np

from onnx_hw.onnx.operators.allowance import spend
from onnx_hw.onnx.operators.dtypes import Array, dtype_of_code, widen
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import Call, Ints, operator
from onnx_hw.onnx.operators.tensor_type import (
    TensorType,
    like_first,
    must_have_axes,
    normal_axes,
    normal_axis,
    onto_first,
)

_EPSILON = 9.999999747378752e-06  # 1e-5 as float32, the default of every schema
_MOMENTUM = 0.8999999761581421


def batch_norm_type(
    x: TensorType,
    scale: TensorType,
    bias: TensorType,
    mean: TensorType,
    var: TensorType,
    *,
    spatial: int = 1,
    **_: float,
) -> tuple[TensorType, ...]:
    """Infer types; with ``spatial`` 0, before opset 9, each element of a sample has a parameter, not each channel."""
    per = x.shape[1:2] if spatial else x.shape[1:]
    for name, parameter in (("scale", scale), ("B", bias), ("mean", mean), ("var", var)):
        if parameter.shape != per and (spatial or parameter.size != math.prod(per)):
            raise ValueError(
                f"{name} must have shape {list(per)} for an input {list(x.shape)}, not {list(parameter.shape)}"
            )
    return TensorType(x.dtype, x.shape), mean, var, mean, var


@operator(since=(14, 15), types=batch_norm_type, facts=Facts(Effect.AFFINE))
def BatchNormalization(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    *,
    epsilon: float = _EPSILON,
    momentum: float = _MOMENTUM,
    training_mode: int = 0,
) -> tuple[Array, ...]:
    """Return ``(x - mean) / sqrt(var + epsilon) * scale + bias`` per channel; in training by the batch's statistics."""
    if not training_mode:
        return (_normalize(x, scale, bias, mean, var, epsilon),)
    axes = (0, *range(2, x.ndim))
    wide = widen(x)
    own_mean, own_var = wide.mean(axis=axes), wide.var(axis=axes)
    y = _normalize(x, scale, bias, own_mean, own_var, epsilon)
    running_mean = mean * momentum + own_mean * (1 - momentum)
    running_var = var * momentum + own_var * (1 - momentum)
    return y, running_mean.astype(mean.dtype), running_var.astype(var.dtype)


@operator(since=9, types=batch_norm_type)
def BatchNormalization_9(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    *,
    epsilon: float = _EPSILON,
    momentum: float = _MOMENTUM,
    call: Call,
) -> tuple[Array, ...]:
    """Normalize; train when there is more than one output: mean, variance, and both of the batch."""
    if call.results == 1:
        return (_normalize(x, scale, bias, mean, var, epsilon),)
    y, running_mean, running_var = BatchNormalization(
        x, scale, bias, mean, var, epsilon=epsilon, momentum=momentum, training_mode=1
    )
    axes = (0, *range(2, x.ndim))
    wide = widen(x)
    return y, running_mean, running_var, wide.mean(axis=axes), wide.var(axis=axes)


@operator(since=7, types=batch_norm_type)
def BatchNormalization_7(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    *,
    epsilon: float = _EPSILON,
    momentum: float = _MOMENTUM,
    spatial: int = 1,
    call: Call,
) -> tuple[Array, ...]:
    """Normalize; with ``spatial`` 0 statistics are for every element of a sample instead of every channel."""
    if spatial:
        return BatchNormalization_9(x, scale, bias, mean, var, epsilon=epsilon, momentum=momentum, call=call)
    if call.results > 1:
        raise ValueError("training with spatial 0 is not defined for exported models")
    scale, bias, mean, var = (parameter.reshape(x.shape[1:]) for parameter in (scale, bias, mean, var))
    return (_normalize(x, scale, bias, mean, var, epsilon),)


@operator(since=6, types=batch_norm_type)
@operator(since=1, types=batch_norm_type, hints=("consumed_inputs",))
def BatchNormalization_6(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    *,
    epsilon: float = _EPSILON,
    is_test: int = 0,
    momentum: float = _MOMENTUM,
    spatial: int = 1,
    call: Call,
) -> tuple[Array, ...]:
    """Normalize; ``is_test`` 1 or a single output means inference, as in later versions."""
    if is_test and call.results > 1:
        raise ValueError("with is_test there is one output")
    return BatchNormalization_7(
        x, scale, bias, mean, var, epsilon=epsilon, momentum=momentum, spatial=spatial, call=call
    )


def _normalize(x: Array, scale: Array, bias: Array, mean: Array, var: Array, epsilon: float) -> Array:
    """Normalize by one multiplication and addition per element, with parameters per channel or of a sample's shape."""
    wide = widen(x)
    dtype = wide.dtype
    gain = scale.astype(np.float64) / np.sqrt(var.astype(np.float64) + epsilon)
    offset = bias.astype(np.float64) - mean.astype(np.float64) * gain
    if scale.ndim <= 1:
        shape = (-1, *(1,) * (x.ndim - 2)) if x.ndim > 1 else (-1,)
        gain, offset = gain.reshape(shape), offset.reshape(shape)
    return (wide * gain.astype(dtype) + offset.astype(dtype)).astype(x.dtype, copy=False)


def _of_channels(x: TensorType, *each: TensorType, **_: float) -> TensorType:
    must_have_axes(x, 2)
    for parameter in each:
        if parameter.size not in (1, x.shape[1]):
            raise ValueError(
                f"scale and bias must have an entry for each channel of {list(x.shape)}, not {parameter.size}"
            )
    return like_first(x)


@operator(since=(6, 22), types=_of_channels, facts=Facts(Effect.NORMALIZES))
@operator(since=1, types=_of_channels, hints=("consumed_inputs",))
def InstanceNormalization(x: Array, scale: Array, bias: Array, *, epsilon: float = _EPSILON) -> Array:
    """Normalize by the statistics of each channel of each sample."""
    y = _standardize(widen(x), tuple(range(2, x.ndim)), epsilon)
    shape = (-1, *(1,) * (x.ndim - 2))
    return (y * scale.reshape(shape) + bias.reshape(shape)).astype(x.dtype, copy=False)


@operator(since=21, types=like_first, facts=Facts(Effect.NORMALIZES))
def GroupNormalization(
    x: Array, scale: Array, bias: Array, *, epsilon: float = _EPSILON, num_groups: int, stash_type: int = 1
) -> Array:
    """Normalize by the statistics of each group of channels of each sample; scale and bias per channel."""
    y = _group_standardized(x, num_groups, epsilon, stash_type).astype(x.dtype, copy=False)
    shape = (-1, *(1,) * (x.ndim - 2))
    return y * scale.reshape(shape) + bias.reshape(shape)


@operator(since=18, types=like_first)
def GroupNormalization_18(x: Array, scale: Array, bias: Array, *, epsilon: float = _EPSILON, num_groups: int) -> Array:
    """Normalize groups of channels; scale and bias per group."""
    each = x.shape[1] // num_groups
    return GroupNormalization(x, np.repeat(scale, each), np.repeat(bias, each), epsilon=epsilon, num_groups=num_groups)


def _group_standardized(x: Array, groups: int, epsilon: float, stash_type: int) -> Array:
    if groups < 1 or x.shape[1] % groups:
        raise ValueError(f"{x.shape[1]} channels must be divisible into {groups} groups")
    wide = x.astype(dtype_of_code(stash_type)).reshape(x.shape[0], groups, -1)
    return _standardize(wide, (2,), epsilon).reshape(x.shape)


def layer_norm_type(
    x: TensorType,
    scale: TensorType,
    bias: TensorType | None = None,
    *,
    axis: int = -1,
    stash_type: int = 1,
    **_: float,
) -> tuple[TensorType, ...]:
    first = normal_axis(axis, x.ndim)
    y = onto_first(x, scale, bias)
    statistic = x.with_shape((*x.shape[:first], *(1,) * (x.ndim - first))).with_dtype(dtype_of_code(stash_type))
    return y, statistic, statistic


@operator(since=17, types=layer_norm_type, facts=Facts(Effect.NORMALIZES))
def LayerNormalization(
    x: Array,
    scale: Array,
    bias: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = _EPSILON,
    stash_type: int = 1,
) -> tuple[Array, Array, Array]:
    """Normalize over all axes from ``axis`` on; return mean and inverse of the standard deviation, too."""
    axes = tuple(range(normal_axis(axis, x.ndim), x.ndim))
    wide = x.astype(dtype_of_code(stash_type))
    mean = wide.mean(axis=axes, keepdims=True)
    centred = wide - mean
    inverse = 1 / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + wide.dtype.type(epsilon))
    y = (centred * inverse).astype(x.dtype, copy=False) * scale
    return (y if bias is None else y + bias), mean, inverse.astype(wide.dtype, copy=False)


@operator(since=23, types=onto_first, facts=Facts(Effect.NORMALIZES))
def RMSNormalization(
    x: Array, scale: Array, *, axis: int = -1, epsilon: float = _EPSILON, stash_type: int = 1
) -> Array:
    """Divide by the root of the mean square of all axes from ``axis`` on."""
    axes = tuple(range(normal_axis(axis, x.ndim), x.ndim))
    wide = x.astype(dtype_of_code(stash_type))
    root = np.sqrt(np.square(wide).mean(axis=axes, keepdims=True) + wide.dtype.type(epsilon))
    return (wide / root).astype(x.dtype, copy=False) * scale


@operator(since=(9, 13), types=like_first, facts=Facts(Effect.NORMALIZES))
def MeanVarianceNormalization(x: Array, *, axes: Ints = (0, 2, 3)) -> Array:
    """Normalize to mean 0 and variance 1 over the axes."""
    return _standardize(widen(x), normal_axes(axes, x.ndim), 1e-9**2).astype(x.dtype, copy=False)


@operator(since=(1, 22), types=like_first, facts=Facts(Effect.NORMALIZES))
def LpNormalization(x: Array, *, axis: int = -1, p: int = 2) -> Array:
    """Divide by the p-norm along one axis; zeros stay zeros."""
    if p not in (1, 2):
        raise ValueError(f"p must be 1 or 2, not {p}")
    wide = widen(x)
    norm = np.linalg.norm(wide, ord=p, axis=axis, keepdims=True)
    return np.divide(wide, norm, out=np.zeros_like(wide), where=norm != 0).astype(x.dtype, copy=False)


@operator(since=(1, 13), types=like_first)
def LRN(x: Array, *, alpha: float = 9.999999747378752e-05, beta: float = 0.75, bias: float = 1.0, size: int) -> Array:
    """Divide by a power of the mean square of ``size`` neighbouring channels."""
    square = np.square(widen(x))
    before, after = (size - 1) // 2, size // 2
    channels = x.shape[1]
    sums = np.zeros_like(square)
    spend(size * x.size, calls=size)
    for step in range(-before, after + 1):
        low, high = max(0, -step), min(channels, channels - step)
        if low < high:
            sums[:, low:high] += square[:, low + step : high + step]
    return (x / (bias + alpha / size * sums) ** beta).astype(x.dtype, copy=False)


def _standardize(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Normalize to mean 0 and variance 1 over the axes."""
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + x.dtype.type(epsilon))
