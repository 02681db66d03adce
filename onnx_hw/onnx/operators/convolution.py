"""Convolution (Conv): every window becomes a column of a matrix, and BLAS multiplies it with the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.operators.allowance import hold, spend
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts, Weights
from onnx_hw.onnx.operators.macs import window_macs
from onnx_hw.onnx.operators.registry import Ints, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, same_dtype
from onnx_hw.onnx.operators.windows import SpatialWindow, sliding_window

_BLOCK = 1 << 18  # elements of one block of columns: stays in the cache, and bounds the memory


def conv_window(
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    **_: Any,
) -> SpatialWindow:
    """Return the window of a convolution of shapes ``x`` and ``w``, by the attributes that all convolutions share.

    Other attributes do not change it.

    Raises:
        ValueError: the shapes and attributes do not fit together.
    """
    if len(x) < 3 or len(w) != len(x):
        raise ValueError(f"X and W must both be of one rank, 3 or more, not {list(x)} and {list(w)}")
    if kernel_shape is not None and tuple(kernel_shape) != w[2:]:
        raise ValueError(f"kernel_shape must be that of W, {list(w[2:])}, not {list(kernel_shape)}")
    if group < 1 or x[1] != w[1] * group or w[0] % group:
        raise ValueError(f"{x[1]} channels in {group} groups do not fit weights of shape {list(w)}")
    return sliding_window(x[2:], w[2:], auto_pad=auto_pad, pads=pads, strides=strides, dilations=dilations)


def conv_type(x: TensorType, w: TensorType, b: TensorType | None = None, **attributes: Any) -> TensorType:
    same_dtype(x, w, b)
    window = conv_window(x.shape, w.shape, **attributes)
    if b is not None and b.shape != w.shape[:1]:
        raise ValueError(f"B must have shape [{w.shape[0]}], one entry per output channel, not {list(b.shape)}")
    return x.with_shape((x.shape[0], w.shape[0], *window.output))


@operator(
    since=(1, 11, 22),
    types=conv_type,
    attributes_of=conv_window,
    facts=Facts(Effect.SUMS, window_macs(1), Weights(1, axis=0, channel=1)),
)
def Conv(x: Array, w: Array, b: Array | None = None, *, group: int = 1, **attributes: Any) -> Array:
    """Convolve (batch, channels, *spatial) with (outputs, channels / group, *kernel), and add ``b`` (outputs,)."""
    window = conv_window(x.shape, w.shape, group=group, **attributes)
    dtype = x.dtype
    if dtype.itemsize < 4:  # float16 and bfloat16 are summed in float32, as every runtime does
        x, w = x.astype(np.float32), w.astype(np.float32)
    y = convolve(x, w, window, group)
    if b is not None:
        y += b.reshape(-1, *(1,) * len(window.kernel))
    return y.astype(dtype, copy=False)


def convolve(x: Array, w: Array, window: SpatialWindow, group: int = 1) -> Array:
    """Return the sums of a convolution without bias, zero padded, in the dtype of ``x`` (float32 or float64)."""
    batch, channels = x.shape[:2]
    outputs, inner = w.shape[:2]
    hold((batch, outputs, *window.output), x.dtype)
    y = np.empty((batch, outputs, *window.output), x.dtype)
    if y.size == 0:
        return y
    spend(0, products=y.size * (w.size // outputs))
    x = window.padded(x, 0)
    if inner == 1 and channels > 1:
        return _depthwise(x, w, window, y)
    weights = w.reshape(group, outputs // group, -1)
    if all(k == 1 for k in window.kernel):
        _, pixels = next(window.taps(x))
        columns = pixels.reshape(batch, group, channels // group, -1)
        np.matmul(weights, columns, out=y.reshape(batch, group, outputs // group, -1))
        return y
    rank = len(window.kernel)
    # (batch, channels, *kernel, *output): a column of the matrix for each window
    views = np.moveaxis(window.views(x), range(-rank, 0), range(2, 2 + rank))
    rows = window.output[0]
    per_row = max(1, views[0].size // rows)
    hold((per_row,), x.dtype)
    step = max(1, _BLOCK // per_row)
    if step >= rows:
        together = max(1, step // rows)
        for start in range(0, batch, together):
            block = views[start : start + together]
            sums = weights @ block.reshape(len(block), group, weights.shape[2], -1)
            y[start : start + together] = sums.reshape(len(block), outputs, *window.output)
        return y
    for frame in range(batch):
        for start in range(0, rows, step):
            block = views[frame][(slice(None),) * (1 + rank) + (slice(start, start + step),)]
            sums = weights @ block.reshape(group, weights.shape[2], -1)
            y[frame, :, start : start + step] = sums.reshape(outputs, -1, *window.output[1:])
    return y


def _depthwise(x: Array, w: Array, window: SpatialWindow, y: Array) -> Array:
    """Convolve each channel by itself: the taps are added up one after the other, without a matrix."""
    batch, channels = x.shape[:2]
    ones = (1,) * len(window.kernel)
    sums = y.reshape(batch, channels, -1, *window.output)
    term = np.empty_like(sums)
    spend(w[0].size * y.size, calls=w[0].size)
    for number, (tap, view) in enumerate(window.taps(x)):
        index: Any = (slice(None), 0, *tap)
        weight = w[index].reshape(channels, -1, *ones)
        if number == 0:
            np.multiply(view[:, :, None], weight, out=sums)
        else:
            np.multiply(view[:, :, None], weight, out=term)
            sums += term
    return y
