"""Operators on quantized integers: ConvInteger, MatMulInteger, QLinearConv, QLinearMatMul, DynamicQuantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.operators.convolution import conv_type, conv_window, convolve
from onnx_hw.onnx.operators.dtypes import Array, integer_range
from onnx_hw.onnx.operators.facts import Facts, Means, Weights
from onnx_hw.onnx.operators.macs import matrix_macs, window_macs
from onnx_hw.onnx.operators.matmul import integer_product, matmul_shape
from onnx_hw.onnx.operators.registry import operator
from onnx_hw.onnx.operators.scales import check_entries, check_scales
from onnx_hw.onnx.operators.tensor_type import TensorType


def conv_integer_type(
    x: TensorType,
    w: TensorType,
    _: TensorType | None = None,
    __: TensorType | None = None,
    **attributes: Any,
) -> TensorType:
    window = conv_window(x.shape, w.shape, **attributes)
    return TensorType(np.dtype(np.int32), (x.shape[0], w.shape[0], *window.output))


@operator(
    since=10,
    types=check_scales(conv_integer_type, one=(2,), along={3: (1, 0)}),
    attributes_of=conv_window,
    facts=Facts(macs=window_macs(1), weights=Weights(1, axis=0, channel=1)),
)
def ConvInteger(
    x: Array,
    w: Array,
    x_zero_point: Array | None = None,
    w_zero_point: Array | None = None,
    *,
    group: int = 1,
    **attributes: Any,
) -> Array:
    """Return ``conv(x - x_zero_point, w - w_zero_point)``, exactly, modulo 2^32; padding counts as the zero point."""
    window = conv_window(x.shape, w.shape, group=group, **attributes)
    sums = convolve(subtract_zero_point(x, x_zero_point), subtract_zero_point(w, w_zero_point, axis=0), window, group)
    return sums.astype(np.int64).astype(np.int32)


def matmul_integer_type(
    a: TensorType, b: TensorType, _: TensorType | None = None, __: TensorType | None = None
) -> TensorType:
    return TensorType(np.dtype(np.int32), matmul_shape(a.shape, b.shape))


@operator(
    since=10,
    types=check_scales(matmul_integer_type, along={2: (0, -2), 3: (1, -1)}),
    facts=Facts(macs=matrix_macs, weights=Weights(1, axis=-1, channel=-1, rank=2)),
)
def MatMulInteger(a: Array, b: Array, a_zero_point: Array | None = None, b_zero_point: Array | None = None) -> Array:
    """Return ``(a - a_zero_point) @ (b - b_zero_point)`` modulo 2^32; zero points are per row of a, column of b."""
    product = integer_product(_centred_rows(a, a_zero_point), subtract_zero_point(b, b_zero_point, axis=-1))
    return product.astype(np.int64).astype(np.int32)


def _qlinear_conv_type(*inputs: TensorType, **attributes: Any) -> TensorType:
    x, w, y_zero_point, b = inputs[0], inputs[3], inputs[7], inputs[8] if len(inputs) > 8 else None
    bias = None if b is None else b.with_dtype(w.dtype)
    return conv_type(x.with_dtype(w.dtype), w, bias, **attributes).with_dtype(y_zero_point.dtype)


qlinear_conv_type = check_scales(_qlinear_conv_type, one=(1, 2, 6, 7), along={4: (3, 0), 5: (3, 0)})


@operator(
    since=10,
    types=qlinear_conv_type,
    attributes_of=conv_window,
    facts=Facts(
        macs=window_macs(3), weights=Weights(3, axis=0, channel=1), rounded=6, means=Means(("Conv", 11), (0, 3), bias=8)
    ),
)
def QLinearConv(
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
    group: int = 1,
    **attributes: Any,
) -> Array:
    """Sum exactly, the bias (int32, of scale ``x_scale * w_scale``) included; then multiply once in float32."""
    window = conv_window(x.shape, w.shape, group=group, **attributes)
    sums = convolve(subtract_zero_point(x, x_zero_point), subtract_zero_point(w, w_zero_point, axis=0), window, group)
    shape = (-1, *(1,) * len(window.kernel))
    if b is not None:
        sums += b.reshape(shape)
    ratio = x_scale * w_scale / y_scale
    return requantize(sums, ratio.reshape(shape) if ratio.size > 1 else ratio.reshape(()), y_zero_point.reshape(()))


def qlinear_matmul_type(
    a: TensorType,
    _: TensorType,
    __: TensorType,
    b: TensorType,
    ___: TensorType,
    ____: TensorType,
    y_scale: TensorType,
    y_zero_point: TensorType,
) -> TensorType:
    y = TensorType(y_zero_point.dtype, matmul_shape(a.shape, b.shape))
    check_entries(6, y_scale, y, -2)
    check_entries(7, y_zero_point, y, -2)
    return y


@operator(
    since=(10, 21),
    types=check_scales(qlinear_matmul_type, along={1: (0, -2), 2: (0, -2), 4: (3, -1), 5: (3, -1)}),
    facts=Facts(
        macs=matrix_macs,
        weights=Weights(3, axis=-1, channel=-1, rank=2),
        rounded=6,
        means=Means(("MatMul", 13), (0, 3)),
    ),
)
def QLinearMatMul(
    a: Array,
    a_scale: Array,
    a_zero_point: Array,
    b: Array,
    b_scale: Array,
    b_zero_point: Array,
    y_scale: Array,
    y_zero_point: Array,
) -> Array:
    """Multiply matrices; scales and zero points: one for all, or one per row of a, per column of b."""
    sums = integer_product(_centred_rows(a, a_zero_point), subtract_zero_point(b, b_zero_point, axis=-1))
    ratio = _per_row(a_scale) * _per_column(b_scale) / _per_row(y_scale)
    return requantize(sums, ratio, _per_row(y_zero_point))


def dynamic_quantize_type(x: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    return x.with_dtype(np.uint8), TensorType(x.dtype, ()), TensorType(np.dtype(np.uint8), ())


@operator(since=11, types=dynamic_quantize_type, facts=Facts(chooses_scale=True))
def DynamicQuantizeLinear(x: Array) -> tuple[Array, Array, Array]:
    """Quantize to uint8 over the range of ``x`` widened to hold 0; return the scale and zero point, too."""
    low, high = np.minimum(x.min(initial=0), 0), np.maximum(x.max(initial=0), 0)
    scale = np.asarray((high - low) / np.float32(255), np.float32)
    if scale == 0:
        scale = np.asarray(1, np.float32)
    zero_point = np.asarray(np.clip(np.rint(-low / scale), 0, 255), np.uint8)
    y = np.clip(np.rint(x / scale) + zero_point.astype(np.float32), 0, 255).astype(np.uint8)
    return y, scale, zero_point


def subtract_zero_point(x: Array, zero_point: Array | None, axis: int = 0) -> Array:
    """Return ``x - zero_point`` in float64, where every sum of products of 8-bit numbers is exact."""
    wide = x.astype(np.float64)
    if zero_point is None:
        return wide
    if zero_point.size == 1:
        wide -= float(zero_point.reshape(()))
    elif zero_point.ndim == 1:
        wide -= zero_point.astype(np.float64).reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])
    else:
        wide -= zero_point.astype(np.float64)
    return wide


def requantize(sums: Array, ratio: Array, zero_point: Array) -> Array:
    """Return ``saturate(round_half_even(sums * ratio) + zero_point)``, multiplied in float32 as onnxruntime does.

    Scales in double precision, which no model has, are multiplied in it: that shows how near to a tie a value was.
    """
    low, high = integer_range(zero_point.dtype)
    dtype = np.dtype(np.float64 if ratio.dtype == np.float64 else np.float32)
    scaled = np.rint(sums.astype(dtype) * ratio.astype(dtype))
    return np.clip(scaled + zero_point.astype(dtype), low, high).astype(zero_point.dtype)


def _per_row(parameter: Array) -> Array:
    """Shape a scale or zero point, one for all or one per row, so that it broadcasts over a matrix."""
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape(-1, 1) if parameter.ndim == 1 else parameter


def _per_column(parameter: Array) -> Array:
    return parameter.reshape(()) if parameter.size == 1 else parameter


def _centred_rows(a: Array, zero_point: Array | None) -> Array:
    return subtract_zero_point(a, zero_point, axis=-2 if a.ndim > 1 else -1)
