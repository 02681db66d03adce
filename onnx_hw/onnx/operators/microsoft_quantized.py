"""Operators of com.microsoft that onnxruntime's quantizer writes, element by element or averages.

Specification: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md. The QLinear operators are
the real-valued operator between a dequantization and a quantization.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_hw.onnx.operators import quantization
from onnx_hw.onnx.operators.activation import LeakyRelu, Sigmoid
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts, Means
from onnx_hw.onnx.operators.integer_arithmetic import requantize
from onnx_hw.onnx.operators.joining import Concat, concat_type
from onnx_hw.onnx.operators.pooling import AveragePool, pool_type, pool_window
from onnx_hw.onnx.operators.reduction import mean, reduce, reduced_shape
from onnx_hw.onnx.operators.registry import Ints, operator
from onnx_hw.onnx.operators.scales import check_scales
from onnx_hw.onnx.operators.softmax import Softmax, Softmax_1
from onnx_hw.onnx.operators.tensor_type import TensorType, broadcast_shape, like_first

_DOMAIN = "com.microsoft"


def to_real(x: Array, scale: Array, zero_point: Array | None) -> Array:
    """Return the real numbers that integers stand for."""
    return quantization.dequantize(x, scale, zero_point, scale.dtype)


def to_integers(y: Array, scale: Array, zero_point: Array | None, like: Array) -> Array:
    """Round real numbers to integers; without a zero point in the type of ``like``, around 0."""
    return quantization.quantize(y, scale, zero_point, like.dtype if zero_point is None else zero_point.dtype)


@operator(since=1, domain=_DOMAIN, types=quantization.quantized_type, facts=Facts(Effect.QUANTIZES, rounded=1))
def QuantizeLinear_microsoft(x: Array, scale: Array, zero_point: Array | None = None, *, axis: int = 1) -> Array:
    return quantization.QuantizeLinear(x, scale, zero_point, axis=axis)


@operator(since=1, domain=_DOMAIN, types=quantization.dequantized_type, facts=Facts(Effect.DEQUANTIZES))
def DequantizeLinear_microsoft(x: Array, scale: Array, zero_point: Array | None = None, *, axis: int = 1) -> Array:
    return quantization.DequantizeLinear(x, scale, zero_point, axis=axis)


def binary_type(
    a: TensorType, _: TensorType, __: TensorType | None, b: TensorType, *___: TensorType | None
) -> TensorType:
    return TensorType(a.dtype, broadcast_shape(a, b))


def binary(op_type: str, compute: Callable[[Array, Array], Array]) -> None:
    """Register the operator of quantized numbers that means ``op_type``."""

    def function(
        a: Array,
        a_scale: Array,
        a_zero_point: Array | None,
        b: Array,
        b_scale: Array,
        b_zero_point: Array | None,
        c_scale: Array,
        c_zero_point: Array | None = None,
    ) -> Array:
        y = compute(to_real(a, a_scale, a_zero_point), to_real(b, b_scale, b_zero_point))
        return to_integers(y, c_scale, c_zero_point, a)

    operator(
        since=1,
        name=f"QLinear{op_type}",
        domain=_DOMAIN,
        types=check_scales(binary_type, one=(1, 2, 4, 5, 6, 7)),
        facts=Facts(rounded=6, means=Means((op_type, 13), (0, 3))),
    )(function)


binary("Add", np.add)
binary("Mul", np.multiply)


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(like_first, one=(1, 2, 3, 4)),
    facts=Facts(rounded=3, means=Means(("Sigmoid", 13), (0,))),
)
def QLinearSigmoid(
    x: Array, x_scale: Array, x_zero_point: Array | None, y_scale: Array, y_zero_point: Array | None = None
) -> Array:
    return to_integers(Sigmoid(to_real(x, x_scale, x_zero_point)), y_scale, y_zero_point, x)


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(like_first, one=(1, 2, 3, 4)),
    facts=Facts(rounded=3, means=Means(("LeakyRelu", 6), (0,))),
)
def QLinearLeakyRelu(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array | None = None,
    *,
    alpha: float = 0.009999999776482582,
) -> Array:
    return to_integers(LeakyRelu(to_real(x, x_scale, x_zero_point), alpha=alpha), y_scale, y_zero_point, x)


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(like_first, one=(1, 2, 3, 4)),
    facts=Facts(rounded=3),
)
def QLinearSoftmax(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array,
    *,
    axis: int = -1,
    opset: int,
) -> Array:
    """Apply the Softmax that ``opset`` states: before 13 over ``axis`` and all axes behind it."""
    values = to_real(x, x_scale, x_zero_point)
    y = Softmax(values, axis=axis) if opset >= 13 else Softmax_1(values, axis=axis)
    return to_integers(y, y_scale, y_zero_point, x)


def where_type(
    condition: TensorType, x: TensorType, _: TensorType, __: TensorType, y: TensorType, *___: TensorType
) -> TensorType:
    return TensorType(x.dtype, broadcast_shape(condition, x, y))


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(where_type, one=(2, 3, 5, 6, 7, 8)),
    facts=Facts(rounded=7),
)
def QLinearWhere(
    condition: Array,
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    y: Array,
    y_scale: Array,
    y_zero_point: Array,
    z_scale: Array,
    z_zero_point: Array,
) -> Array:
    z = np.where(condition, to_real(x, x_scale, x_zero_point), to_real(y, y_scale, y_zero_point))
    return to_integers(z, z_scale, z_zero_point, x)


def qlinear_concat_type(_: TensorType, y_zero_point: TensorType, *inputs: TensorType, axis: int) -> TensorType:
    if not inputs or len(inputs) % 3:
        raise ValueError("each input must be given as tensor, scale and zero point")
    return concat_type(*inputs[::3], axis=axis).with_dtype(y_zero_point.dtype)


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(qlinear_concat_type, one=(0, 1), rest=True),
    facts=Facts(Effect.JOINS, rounded=0),
)
def QLinearConcat(y_scale: Array, y_zero_point: Array, *inputs: Array, axis: int) -> Array:
    """Join tensors; the inputs are scale and zero point of the result, then tensor, scale, zero point of each."""
    parts = [to_real(*inputs[k : k + 3]) for k in range(0, len(inputs), 3)]
    return to_integers(Concat(*parts, axis=axis), y_scale, y_zero_point, inputs[0])


def with_channels_first(x: TensorType) -> TensorType:
    return x.with_shape((x.shape[0], x.shape[-1], *x.shape[1:-1]))


def with_channels_last(x: TensorType) -> TensorType:
    return x.with_shape((x.shape[0], *x.shape[2:], x.shape[1]))


def average_type(
    x: TensorType, _: TensorType, __: TensorType | None, *___: TensorType | None, channels_last: int = 0, **options: Any
) -> TensorType:
    y = pool_type(with_channels_first(x) if channels_last else x, **options)
    return with_channels_last(y) if channels_last else y


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(average_type, one=(1, 2, 3, 4)),
    attributes_of=pool_window,
    without=("dilations",),
    facts=Facts(rounded=3, means=Means(("AveragePool", 11), (0,))),
)
def QLinearAveragePool(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array | None = None,
    *,
    channels_last: int = 0,
    count_include_pad: int = 0,
    **attributes: Any,
) -> Array:
    values = to_real(x, x_scale, x_zero_point)
    first = np.moveaxis(values, -1, 1) if channels_last else values
    y = AveragePool(first, count_include_pad=count_include_pad, **attributes)
    return to_integers(np.moveaxis(y, 1, -1) if channels_last else y, y_scale, y_zero_point, x)


def global_average_type(x: TensorType, *_: TensorType, channels_last: int = 0) -> TensorType:
    ones = (1,) * (x.ndim - 2)
    return x.with_shape((x.shape[0], *ones, x.shape[-1]) if channels_last else (*x.shape[:2], *ones))


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(global_average_type, one=(1, 2, 3, 4)),
    facts=Facts(rounded=3, means=Means(("GlobalAveragePool", 1), (0,))),
)
def QLinearGlobalAveragePool(
    x: Array, x_scale: Array, x_zero_point: Array, y_scale: Array, y_zero_point: Array, *, channels_last: int = 0
) -> Array:
    """Average: the sum of the integers is exact, then one multiplication in float32."""
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    sums = (x.astype(np.int64) - x_zero_point.astype(np.int64).reshape(())).sum(axis=axes, keepdims=True)
    count = math.prod(x.shape[axis] for axis in axes)
    return requantize(sums, x_scale.reshape(()) / (y_scale.reshape(()) * np.float32(count)), y_zero_point.reshape(()))


def reduce_mean_type(x: TensorType, *_: TensorType | None, axes: Ints, keepdims: int) -> TensorType:
    return x.with_shape(reduced_shape(x.shape, axes, keepdims))


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(reduce_mean_type, one=(1, 2, 3, 4)),
    facts=Facts(rounded=3, means=Means(("ReduceMean", 13), (0,))),
)
def QLinearReduceMean(
    x: Array,
    x_scale: Array,
    x_zero_point: Array | None,
    y_scale: Array,
    y_zero_point: Array | None = None,
    *,
    axes: Ints,
    keepdims: int,
) -> Array:
    y = reduce(mean, to_real(x, x_scale, x_zero_point), axes, keepdims)
    return to_integers(y, y_scale, y_zero_point, x)
