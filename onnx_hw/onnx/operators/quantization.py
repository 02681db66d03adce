"""Quantization: QuantizeLinear and DequantizeLinear, per tensor, per axis and per block."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.operators.cast import convert
from onnx_hw.onnx.operators.dtypes import Array, dtype_of_code, integer_range, is_integer
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, normal_axis, same_dtype


def quantized_type(
    x: TensorType,
    scale: TensorType,
    zero_point: TensorType | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    **_: int,
) -> TensorType:
    check_scale(x.shape, scale.shape, None if zero_point is None else zero_point.shape, axis, block_size)
    return x.with_dtype(quantized_dtype(zero_point, output_dtype))


def dequantized_type(
    x: TensorType,
    scale: TensorType,
    zero_point: TensorType | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> TensorType:
    check_scale(x.shape, scale.shape, None if zero_point is None else zero_point.shape, axis, block_size)
    same_dtype(x, zero_point)
    return x.with_dtype(dtype_of_code(output_dtype) if output_dtype else scale.dtype)


@operator(since=(23, 24, 25, 28), types=quantized_type, facts=Facts(Effect.QUANTIZES, rounded=1))
def QuantizeLinear(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Array:
    """Return ``saturate(round_half_even(x / scale) + zero_point)``; the division is done in type ``precision``."""
    dtype = quantized_dtype(zero_point, output_dtype)
    division = dtype_of_code(precision) if precision else scale.dtype
    check_scale(x.shape, scale.shape, None if zero_point is None else zero_point.shape, axis, block_size)
    return quantize(x, scale, zero_point, dtype, axis, block_size, division, bool(saturate))


earlier(QuantizeLinear, since=21, without=("precision",))
earlier(QuantizeLinear, since=19, without=("block_size", "output_dtype", "precision"))


earlier(QuantizeLinear, since=13, without=("block_size", "output_dtype", "precision", "saturate"))


def one_quantized_type(x: TensorType, scale: TensorType, zero_point: TensorType | None = None) -> TensorType:
    one_scale(scale)
    return x.with_dtype(quantized_dtype(zero_point, 0))


@operator(since=10, types=one_quantized_type)
def QuantizeLinear_10(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
    """Quantize per tensor."""
    one_scale(scale)
    return QuantizeLinear(x, scale.reshape(()), zero_point)


@operator(since=(23, 24, 25, 28), types=dequantized_type, facts=Facts(Effect.DEQUANTIZES))
def DequantizeLinear(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    """Return ``(x - zero_point) * scale`` in the output's type; the difference is exact."""
    check_scale(x.shape, scale.shape, None if zero_point is None else zero_point.shape, axis, block_size)
    dtype = dtype_of_code(output_dtype) if output_dtype else scale.dtype
    return dequantize(x, scale, zero_point, dtype, axis, block_size)


earlier(DequantizeLinear, since=21, without=("output_dtype",))
earlier(DequantizeLinear, since=(13, 19), without=("block_size", "output_dtype"))


def one_dequantized_type(x: TensorType, scale: TensorType, zero_point: TensorType | None = None) -> TensorType:
    one_scale(scale)
    same_dtype(x, zero_point)
    return x.with_dtype(scale.dtype)


@operator(since=10, types=one_dequantized_type)
def DequantizeLinear_10(x: Array, scale: Array, zero_point: Array | None = None) -> Array:
    """Dequantize per tensor."""
    one_scale(scale)
    return DequantizeLinear(x, scale.reshape(()), zero_point)


def quantize(
    x: Array,
    scale: Array,
    zero_point: Array | None,
    dtype: np.dtype[Any],
    axis: int = 1,
    block_size: int = 0,
    division: np.dtype[Any] | None = None,
    saturate: bool = True,
) -> Array:
    """Quantize ``x`` to ``dtype``; scale and zero point are one for all, or one per ``axis`` entry or block."""
    division = scale.dtype if division is None else division
    scale = per_element(scale, x.shape, axis, block_size).astype(division, copy=False)
    ratio = np.asarray(np.divide(x.astype(division, copy=False), scale))  # numpy makes a scalar of 0-d arrays
    wide = ratio if ratio.dtype.itemsize >= 4 else ratio.astype(np.float32)
    if not is_integer(dtype):
        if zero_point is not None:
            wide = np.asarray(wide + per_element(zero_point, x.shape, axis, block_size).astype(wide.dtype))
        return convert(wide, dtype, saturate=saturate)
    low, high = integer_range(dtype)
    rounded = np.rint(wide, out=wide if wide is not x else None)
    if high > 1 << 16:
        rounded = rounded.astype(np.float64)  # a sum with the zero point that float32 cannot hold
    if zero_point is not None:
        rounded += per_element(zero_point, x.shape, axis, block_size).astype(rounded.dtype)
    bounded = np.fmin(np.fmax(rounded, low, out=rounded), high, out=rounded)  # NaN becomes the least integer
    return bounded.astype(_native(dtype)).astype(dtype, copy=False)


def dequantize(
    x: Array, scale: Array, zero_point: Array | None, dtype: np.dtype[Any], axis: int = 1, block_size: int = 0
) -> Array:
    """Return the real numbers that ``x`` stands for, in ``dtype``."""
    narrow = is_integer(x.dtype) and x.dtype.itemsize <= 2 and dtype.itemsize >= 4
    if narrow and zero_point is not None:
        wide = np.subtract(x, per_element(zero_point, x.shape, axis, block_size), dtype=dtype)  # exact: 17 bits
    elif is_integer(x.dtype):
        if zero_point is not None and np.any(zero_point):
            x = x.astype(np.int64 if x.dtype.itemsize >= 4 else np.int32)
            x = x - per_element(zero_point, x.shape, axis, block_size).astype(x.dtype)
        wide = x.astype(dtype)
    else:
        wide = x.astype(dtype)
        if zero_point is not None:
            wide = wide - per_element(zero_point, x.shape, axis, block_size).astype(dtype)
    factor = per_element(scale, x.shape, axis, block_size).astype(dtype, copy=False)
    return np.multiply(wide, factor, out=np.asarray(wide) if wide is not x else None)


def per_element(parameter: Array, shape: tuple[int, ...], axis: int, block_size: int) -> Array:
    """Shape a scale or zero point so that it broadcasts to the tensor's shape."""
    if parameter.ndim == 0 or (parameter.size == 1 and not block_size):
        return parameter.reshape(())
    axis = normal_axis(axis, len(shape)) if len(shape) > 1 else 0
    if block_size:
        return np.repeat(parameter, block_size, axis=axis)[(slice(None),) * axis + (slice(shape[axis]),)]
    return parameter.reshape(-1, *(1,) * (len(shape) - 1 - axis))


def check_scale(
    shape: tuple[int, ...],
    scale: tuple[int, ...],
    zero_point: tuple[int, ...] | None,
    axis: int,
    block_size: int,
) -> None:
    """Raise ``ValueError`` unless scale and zero point fit a tensor of ``shape``."""
    if zero_point is not None and _size(zero_point) != _size(scale):
        raise ValueError(f"zero point and scale must have one shape, not {list(zero_point)} and {list(scale)}")
    if _size(scale) == 1 and not block_size:
        return
    axis = normal_axis(axis, len(shape)) if len(shape) > 1 else 0
    if block_size:
        expected = tuple(-(-n // block_size) if number == axis else n for number, n in enumerate(shape))
    else:
        expected = shape[axis : axis + 1]
    if scale != expected:
        raise ValueError(
            f"the scale must have shape {list(expected)} for axis {axis} of {list(shape)}, not {list(scale)}"
        )


def quantized_dtype(zero_point: Array | TensorType | None, output_dtype: int) -> np.dtype[Any]:
    """Return the zero point's type, else the attribute's, else uint8; raise ``ValueError`` where both differ."""
    if zero_point is None:
        return dtype_of_code(output_dtype) if output_dtype else np.dtype(np.uint8)
    if output_dtype and dtype_of_code(output_dtype) != zero_point.dtype:
        raise ValueError(f"output_dtype must be the type of the zero point, {zero_point.dtype}")
    return zero_point.dtype


def one_scale(scale: Array | TensorType) -> None:
    """Raise ``ValueError`` unless the scale is one number, as it must be before opset 13."""
    if scale.size != 1:
        raise ValueError(f"before opset 13 the scale must be a scalar, not of shape {list(scale.shape)}")


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return an integer type of numpy's own that holds every value of ``dtype``."""
    return np.dtype(np.int8) if dtype.kind == "V" else dtype
