"""Products of com.microsoft that onnxruntime's quantizer writes: its QLinearConv, QGemm, MatMulIntegerToFloat ...

Specification: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.operators.convolution import conv_window
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Facts, Means, Weights
from onnx_hw.onnx.operators.integer_arithmetic import (
    DynamicQuantizeLinear,
    MatMulInteger,
    QLinearConv,
    qlinear_conv_type,
    requantize,
)
from onnx_hw.onnx.operators.macs import matrix_macs, window_macs
from onnx_hw.onnx.operators.matmul import integer_product, matmul_shape
from onnx_hw.onnx.operators.microsoft_quantized import with_channels_first, with_channels_last
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.scales import check_entries, check_scales
from onnx_hw.onnx.operators.tensor_type import TensorType, broadcast_shape

_DOMAIN = "com.microsoft"


def channels_last_conv_type(
    x: TensorType, *rest: TensorType | None, channels_last: int = 0, **options: Any
) -> TensorType:
    y: TensorType = qlinear_conv_type(with_channels_first(x) if channels_last else x, *rest, **options)
    return with_channels_last(y) if channels_last else y


@operator(
    since=1,
    domain=_DOMAIN,
    types=channels_last_conv_type,
    attributes_of=conv_window,
    facts=Facts(
        macs=window_macs(3), weights=Weights(3, axis=0, channel=1), rounded=6, means=Means(("Conv", 11), (0, 3), bias=8)
    ),
)
def QLinearConv_microsoft(
    x: Array,
    x_scale: Array,
    x_zero_point: Array,
    w: Array,
    w_scale: Array,
    w_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
    b: Array | None = None,
    *,
    channels_last: int = 0,
    **attributes: Any,
) -> Array:
    """Apply QLinearConv, also with the channels innermost."""
    first = np.moveaxis(x, -1, 1) if channels_last else x
    weights, result = (w, w_scale, w_zero_point), (y_scale, y_zero_point)
    y = QLinearConv(first, x_scale, x_zero_point, *weights, *result, b, **attributes)
    return np.moveaxis(y, 1, -1) if channels_last else y


def qgemm_type(
    a: TensorType,
    a_scale: TensorType,
    _: TensorType,
    b: TensorType,
    b_scale: TensorType,
    b_zero_point: TensorType,
    c: TensorType | None = None,
    __: TensorType | None = None,
    y_zero_point: TensorType | None = None,
    *,
    transA: int = 0,
    transB: int = 0,
    **___: float,
) -> TensorType:
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"A and B must be matrices, not of shapes {list(a.shape)} and {list(b.shape)}")
    shape = matmul_shape(a.shape[::-1] if transA else a.shape, b.shape[::-1] if transB else b.shape)
    y = TensorType(a_scale.dtype, shape)
    check_entries(4, b_scale, y, -1)
    check_entries(5, b_zero_point, y, -1)
    if c is not None and broadcast_shape(y, c) != shape:
        raise ValueError(f"C must broadcast to {list(shape)}, but {list(c.shape)} does not")
    return TensorType(a_scale.dtype if y_zero_point is None else y_zero_point.dtype, shape)


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(qgemm_type, one=(1, 2, 7, 8)),
    facts=Facts(
        macs=matrix_macs,
        weights=Weights(3, axis=-1, channel=-1, rank=2, turned="transB"),
        rounded=7,
        means=Means(("Gemm", 13), (0, 3), bias=6),
    ),
)
def QGemm(
    a: Array,
    a_scale: Array,
    a_zero_point: Array,
    b: Array,
    b_scale: Array,
    b_zero_point: Array,
    c: Array | None = None,
    y_scale: Array | None = None,
    y_zero_point: Array | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """Multiply matrices, add an int32 bias of scale ``alpha * a_scale * b_scale``; float32 without a result's scale."""
    left = a.astype(np.int64) - a_zero_point.astype(np.int64).reshape(())
    right = b.astype(np.int64).T if transB else b.astype(np.int64)
    right = right - b_zero_point.astype(np.int64)  # one, or one per column
    sums = integer_product(left.T if transA else left, right)
    if c is not None:
        sums = sums + c
    ratio = np.float32(alpha) * a_scale.reshape(()) * b_scale
    if y_scale is None or y_zero_point is None:
        return (sums * ratio).astype(np.float32)
    return requantize(sums, ratio / y_scale.reshape(()), y_zero_point.reshape(()))


def integer_to_float_type(
    a: TensorType,
    b: TensorType,
    a_scale: TensorType,
    _: TensorType,
    __: TensorType | None = None,
    ___: TensorType | None = None,
    bias: TensorType | None = None,
) -> TensorType:
    return _with_bias(TensorType(a_scale.dtype, matmul_shape(a.shape, b.shape)), bias)


def _with_bias(y: TensorType, bias: TensorType | None) -> TensorType:
    if bias is not None and (bias.ndim != 1 or bias.shape != y.shape[-1:]):
        raise ValueError(f"bias must have one entry per column of {list(y.shape)}, not the shape {list(bias.shape)}")
    return y


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(integer_to_float_type, one=(2, 4), along={3: (1, -1), 5: (1, -1)}),
    facts=Facts(macs=matrix_macs, weights=Weights(1, axis=-1, channel=-1, rank=2)),
)
def MatMulIntegerToFloat(
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    a_zero_point: Array | None = None,
    b_zero_point: Array | None = None,
    bias: Array | None = None,
) -> Array:
    y = MatMulInteger(a, b, a_zero_point, b_zero_point).astype(a_scale.dtype) * (a_scale.reshape(()) * b_scale)
    return y if bias is None else y + bias


def dynamic_matmul_type(
    a: TensorType, b: TensorType, _: TensorType, __: TensorType | None = None, bias: TensorType | None = None
) -> TensorType:
    return _with_bias(TensorType(a.dtype, matmul_shape(a.shape, b.shape)), bias)


@operator(
    since=1,
    domain=_DOMAIN,
    types=check_scales(dynamic_matmul_type, along={2: (1, -1), 3: (1, -1)}),
    facts=Facts(macs=matrix_macs, weights=Weights(1, axis=-1, channel=-1, rank=2), chooses_scale=True),
)
def DynamicQuantizeMatMul(
    a: Array, b: Array, b_scale: Array, b_zero_point: Array | None = None, bias: Array | None = None
) -> Array:
    """Quantize ``a`` to uint8 over its own range, then multiply."""
    x, scale, zero_point = DynamicQuantizeLinear(a)
    return MatMulIntegerToFloat(x, b, scale, b_scale, zero_point, b_zero_point, bias)
