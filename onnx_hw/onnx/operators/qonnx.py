"""Quantization operators of QONNX, FINN and Brevitas: values stay float, but lie on a grid of some number of bits.

Specification: https://github.com/fastmachinelearning/qonnx/tree/main/docs/qonnx-custom-ops
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.convolution import Conv, conv_type, conv_window
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.macs import window_macs
from onnx_hw.onnx.operators.normalization import BatchNormalization
from onnx_hw.onnx.operators.pooling import along_axes, lowest, pool_window
from onnx_hw.onnx.operators.registry import F, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, like_first

DOMAINS = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")
"""Domains of these operators, which have been published under three names."""

CHANNELS_LAST = "qonnx.custom_op.channels_last"
"""Domain of operators with the channels innermost."""

SNAPS = Facts(Effect.SNAPS)


def qonnx_operator(*, since: int | tuple[int, ...], name: str = "", facts: Facts | None = None) -> Callable[[F], F]:
    """Register an operator of all the domains, with a result like its first input; see ``operator``."""

    def register(function: F) -> F:
        for domain in DOMAINS:
            operator(since=since, name=name, domain=domain, types=like_first, facts=facts)(function)
        return function

    return register


@qonnx_operator(since=(1, 2), name="IntQuant", facts=SNAPS)  # the newer name
@qonnx_operator(since=(1, 2), facts=SNAPS)
def Quant(
    x: Array,
    scale: Array,
    zero_point: Array,
    bit_width: Array,
    *,
    narrow: int = 0,
    rounding_mode: str = "ROUND",
    signed: int = 1,
) -> Array:
    """Return ``(round(clamp(x / scale + zero_point)) - zero_point) * scale``; one signed bit means -1 and 1."""
    y = x / scale + zero_point
    if signed and bit_width.size == 1 and int(bit_width.reshape(())) == 1:
        y = np.where(y >= 0, 1, -1)
    else:
        y = round_to_integers(np.clip(y, *integer_bounds(bit_width, signed, narrow)), rounding_mode)
    return ((y - zero_point) * scale).astype(x.dtype, copy=False)


@qonnx_operator(since=(1, 2), facts=SNAPS)
def BipolarQuant(x: Array, scale: Array) -> Array:
    """Return the scale with the sign of ``x``; zero counts as positive."""
    return (np.where(x >= 0, 1, -1).astype(x.dtype) * scale).astype(x.dtype, copy=False)


@qonnx_operator(since=2, facts=SNAPS)
def Trunc(
    x: Array,
    scale: Array,
    zero_point: Array,
    in_bit_width: Array,
    out_scale: Array,
    out_bit_width: Array,
    *,
    narrow: int = 0,
    rounding_mode: str = "FLOOR",
    signed: int = 1,
) -> Array:
    """Divide integers by the power of two nearest to ``out_scale / scale``, clamp and round."""
    del in_bit_width  # the ratio of the scales determines the number of dropped bits
    y = np.rint(x / scale + zero_point)
    ratio = 2 ** np.rint(np.log2(out_scale / scale))
    y = round_to_integers(np.clip(y / ratio, *integer_bounds(out_bit_width, signed, narrow)), rounding_mode)
    return ((y - zero_point / ratio) * out_scale).astype(x.dtype, copy=False)


@qonnx_operator(since=1)
def Trunc_1(
    x: Array,
    scale: Array,
    zero_point: Array,
    in_bit_width: Array,
    out_bit_width: Array,
    *,
    rounding_mode: str = "FLOOR",
) -> Array:
    """Cut off the number of bits by which the widths differ; the scale stays."""
    y = np.rint(x / scale + zero_point) / 2.0 ** (in_bit_width - out_bit_width)
    return ((round_to_integers(y, rounding_mode) - zero_point) * scale).astype(x.dtype, copy=False)


@qonnx_operator(since=(1, 2))
def FloatQuant(
    x: Array,
    scale: Array,
    exponent_bit_width: Array,
    mantissa_bit_width: Array,
    exponent_bias: Array,
    max_val: Array,
    *,
    has_inf: int = 0,
    has_nan: int = 0,
    has_subnormal: int = 1,
    rounding_mode: str = "ROUND",
    saturation: int = 1,
) -> Array:
    """Round to numbers of a small float format times ``scale``, saturating at ``max_val``."""
    if not (saturation and has_subnormal):
        raise ValueError(
            "a format that does not saturate, or has no subnormal numbers, must be rounded by its own rules"
        )
    del has_inf, has_nan  # max_val leaves out the codes that they take
    wide = (x / scale).astype(np.float64)
    exponent = np.floor(np.log2(np.maximum(np.abs(wide), np.finfo(np.float32).tiny)))
    grid = np.exp2(np.maximum(exponent, 1 - exponent_bias) - mantissa_bit_width)
    largest = (2 - 2.0**-mantissa_bit_width) * 2.0 ** (2.0**exponent_bit_width - 1 - exponent_bias)
    bound = np.minimum(largest, max_val)
    return (np.clip(round_to_integers(wide / grid, rounding_mode) * grid, -bound, bound) * scale).astype(x.dtype)


@qonnx_operator(since=(1, 2), facts=SNAPS)
def MultiThreshold(
    x: Array,
    thresholds: Array,
    *,
    data_layout: str = "NCHW",
    out_bias: float = 0.0,
    out_dtype: str,
    out_scale: float = 1.0,
) -> Array:
    """Count the thresholds (channels or 1, steps) that each value reaches; times ``out_scale`` plus ``out_bias``."""
    if data_layout not in ("NCHW", "NHWC", "NC"):
        raise ValueError(f"data_layout must be NCHW or NHWC, not {data_layout}")
    del out_dtype  # says which integers can occur
    last = data_layout == "NHWC" or x.ndim not in (2, 4)
    channels_last = x if last else np.moveaxis(x, 1, -1)
    if thresholds.shape[0] not in (1, channels_last.shape[-1]):
        raise ValueError(f"thresholds must be for 1 or {channels_last.shape[-1]} channels, not {thresholds.shape[0]}")
    counts = np.zeros(channels_last.shape, np.float32)
    for step in thresholds.T:
        counts += channels_last >= step
    y = counts if last else np.moveaxis(counts, -1, 1)
    return (y * np.float32(out_scale) + np.float32(out_bias)).astype(x.dtype, copy=False)


def integer_bounds(bit_width: Array, signed: int, narrow: int) -> tuple[Any, Any]:
    """Return the lowest and highest integer of that many bits; ``narrow`` leaves out one value."""
    bits = bit_width.astype(np.float64)
    if signed:
        return -(2.0 ** (bits - 1)) + (1 if narrow else 0), 2.0 ** (bits - 1) - 1
    return np.zeros_like(bits), 2.0**bits - (2 if narrow else 1)


def round_to_integers(x: Array, mode: str) -> Array:
    """Round to integers; ``UP`` is away from zero, ``DOWN`` towards it, and so for the halves.

    Raises:
        ValueError: the mode is not known.
    """
    half_away = {"HALF_UP": lambda: np.floor(np.abs(x) + 0.5), "HALF_DOWN": lambda: np.ceil(np.abs(x) - 0.5)}
    modes: dict[str, Callable[[], Array]] = {
        "ROUND": lambda: np.rint(x),
        "HALF_EVEN": lambda: np.rint(x),
        "CEIL": lambda: np.ceil(x),
        "FLOOR": lambda: np.floor(x),
        "DOWN": lambda: np.trunc(x),
        "UP": lambda: np.copysign(np.ceil(np.abs(x)), x),
        **{name: (lambda f=f: np.copysign(f(), x)) for name, f in half_away.items()},  # type: ignore[misc]
    }
    if mode.upper() not in modes:
        raise ValueError(f"rounding_mode must be one of {', '.join(modes)}, not {mode}")
    return modes[mode.upper()]()


def channels_last_conv_type(x: TensorType, w: TensorType, b: TensorType | None = None, **attributes: Any) -> TensorType:
    first, weights = (tensor.with_shape((tensor.shape[0], tensor.shape[-1], *tensor.shape[1:-1])) for tensor in (x, w))
    y = conv_type(first, weights, b, **attributes)
    return y.with_shape((y.shape[0], *y.shape[2:], y.shape[1]))


@operator(
    since=1,
    domain=CHANNELS_LAST,
    types=channels_last_conv_type,
    attributes_of=conv_window,
    facts=Facts(macs=window_macs(1)),
)
def Conv_channels_last(x: Array, w: Array, b: Array | None = None, **attributes: Any) -> Array:
    """Apply Conv with the channels of ``x``, of the weights and of the result innermost."""
    y = Conv(np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1), b, **attributes)
    return np.ascontiguousarray(np.moveaxis(y, 1, -1))


def channels_last_pool_type(x: TensorType, **attributes: Any) -> TensorType:
    shape = (x.shape[0], x.shape[-1], *x.shape[1:-1])
    return x.with_shape((x.shape[0], *pool_window(shape, **attributes).output, x.shape[-1]))


@operator(since=1, domain=CHANNELS_LAST, types=channels_last_pool_type, attributes_of=pool_window)
def MaxPool_channels_last(x: Array, **attributes: Any) -> Array:
    """Apply MaxPool with the channels innermost."""
    first = np.moveaxis(x, -1, 1)
    window = pool_window(first.shape, **attributes)
    y = along_axes(np.maximum, window.padded(first, lowest(x.dtype)), window)
    return np.ascontiguousarray(np.moveaxis(y, 1, -1))


@operator(since=1, domain=CHANNELS_LAST, types=like_first)
def BatchNormalization_channels_last(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    *,
    epsilon: float = 9.999999747378752e-06,
    momentum: float = 0.8999999761581421,
) -> Array:
    """Apply BatchNormalization for inference with the channels innermost."""
    y = BatchNormalization(np.moveaxis(x, -1, 1), scale, bias, mean, var, epsilon=epsilon, momentum=momentum)
    return np.ascontiguousarray(np.moveaxis(y[0], 1, -1))
