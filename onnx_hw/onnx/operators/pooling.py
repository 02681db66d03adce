"""Pooling: an axis at a time, a tap at a time, since maxima and sums over a box are maxima and sums of its sides.

Means are summed in float64: the mean of quantized values is often a tie when it is quantized again, and must stay one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.operators.allowance import hold, spend
from onnx_hw.onnx.operators.dtypes import Array, integer_range, is_integer, widen
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import Call, Ints, earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType
from onnx_hw.onnx.operators.windows import SpatialWindow, sliding_window


def pool_type(x: TensorType, **attributes: Any) -> TensorType:
    return x.with_shape((*x.shape[:2], *pool_window(x.shape, **attributes).output))


def max_pool_type(x: TensorType, **attributes: Any) -> tuple[TensorType, TensorType]:
    y = pool_type(x, **attributes)
    return y, y.with_dtype(np.int64)


def pool_window(
    shape: tuple[int, ...],
    /,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints | None = None,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
    **_: Any,
) -> SpatialWindow:
    """Return the window of a pooling over a tensor of that shape, by the attributes that all poolings share.

    Other attributes do not change it.

    Raises:
        ValueError: the tensor has no spatial axis, or the attributes do not fit.
    """
    if len(shape) < 3:
        raise ValueError(f"X must be (batch, channels, *spatial), not {list(shape)}")
    return sliding_window(
        shape[2:],
        kernel_shape,
        auto_pad=auto_pad,
        pads=pads,
        strides=strides,
        dilations=dilations,
        ceil_mode=ceil_mode,
    )


@operator(since=(10, 11, 12, 22), types=max_pool_type, attributes_of=pool_window, facts=Facts(Effect.KEEPS))
def MaxPool(x: Array, *, storage_order: int = 0, call: Call, **attributes: Any) -> Array | tuple[Array, Array]:
    """Return maxima, and each one's flat index in ``x``; with ``storage_order`` 1 its first axis runs fastest."""
    window = pool_window(x.shape, **attributes)
    padded = window.padded(x, lowest(x.dtype))
    y = along_axes(np.maximum, padded, window)
    if call.results < 2:
        return y
    return y, _indices_of_maxima(x, window, storage_order)


earlier(MaxPool, since=8, without=("ceil_mode", "dilations"))


@operator(since=1, types=pool_type)
def MaxPool_1(
    x: Array,
    *,
    auto_pad: str = "NOTSET",
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Array:
    """Return maxima without indices."""
    window = pool_window(x.shape, auto_pad=auto_pad, kernel_shape=kernel_shape, pads=pads, strides=strides)
    return along_axes(np.maximum, window.padded(x, lowest(x.dtype)), window)


@operator(since=(19, 22), types=pool_type, attributes_of=pool_window, facts=Facts(Effect.SUMS))
def AveragePool(x: Array, *, count_include_pad: int = 0, **attributes: Any) -> Array:
    """Return means over the elements of ``x``; with ``count_include_pad`` the stated padding counts as zeros."""
    window = pool_window(x.shape, **attributes)
    sums = along_axes(np.add, window.padded(x.astype(np.float64), 0), window)
    counts = window.counts(x.shape[2:], include_pads=bool(count_include_pad))
    return (sums / counts).astype(x.dtype)


earlier(AveragePool, since=(10, 11), without=("dilations",))
earlier(AveragePool, since=7, without=("ceil_mode", "dilations"))


earlier(AveragePool, since=1, without=("ceil_mode", "count_include_pad", "dilations"))


def global_pool_type(x: TensorType, **_: Any) -> TensorType:
    return x.with_shape((*x.shape[:2], *(1,) * (x.ndim - 2)))


@operator(since=(1, 22), types=global_pool_type, facts=Facts(Effect.SUMS))
def GlobalAveragePool(x: Array) -> Array:
    return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True, dtype=np.float64).astype(x.dtype)


@operator(since=(1, 22), types=global_pool_type, facts=Facts(Effect.KEEPS))
def GlobalMaxPool(x: Array) -> Array:
    return x.max(axis=tuple(range(2, x.ndim)), keepdims=True)


@operator(since=(18, 22), types=pool_type, attributes_of=pool_window)
def LpPool(x: Array, *, p: int = 2, **attributes: Any) -> Array:
    """Return p-norms over windows; padding counts as zero."""
    window = pool_window(x.shape, **attributes)
    powers = np.abs(widen(x)) ** p
    return (along_axes(np.add, window.padded(powers, 0), window) ** (1 / p)).astype(x.dtype)


earlier(LpPool, since=(2, 11), without=("ceil_mode", "dilations"))


@operator(since=(2, 22), types=global_pool_type)
def GlobalLpPool(x: Array, *, p: int = 2) -> Array:
    powers = np.abs(widen(x)) ** p
    return (powers.sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / p)).astype(x.dtype)


@operator(since=1, types=global_pool_type)
def GlobalLpPool_1(x: Array, *, p: float = 2.0) -> Array:
    """Return a global p-norm, also for a p that is not an integer."""
    return GlobalLpPool(x, p=p)  # type: ignore[arg-type]


def along_axes(combine: np.ufunc, padded: Array, window: SpatialWindow) -> Array:
    """Apply ``combine`` over each window of the padded tensor, one spatial axis after the other."""
    y = padded
    for axis, kernel in enumerate(window.kernel, start=2):
        stride, dilation, count = window.strides[axis - 2], window.dilations[axis - 2], window.output[axis - 2]
        before = (slice(None),) * axis
        spend(kernel * (y.size // max(y.shape[axis], 1)) * count, calls=kernel)
        taps = [
            y[(*before, slice(k * dilation, k * dilation + (count - 1) * stride + 1, stride))] for k in range(kernel)
        ]
        y = taps[0].copy()
        for other in taps[1:]:
            combine(y, other, out=y)
    return y


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the number below every other, with which a maximum begins: minus infinity, or the lowest integer."""
    return integer_range(dtype)[0] if is_integer(dtype) else -np.inf


def _indices_of_maxima(x: Array, window: SpatialWindow, storage_order: int) -> Array:
    rank = len(window.kernel)
    wide = x.astype(np.float64) if is_integer(x.dtype) else x  # so that padding is below every integer
    views = window.views(window.padded(wide, -np.inf))
    hold(views.shape, views.dtype)
    best = views.reshape(*views.shape[:-rank], -1).argmax(axis=-1)
    taps = np.unravel_index(best, window.kernel)
    spatial = x.shape[2:]
    flat = np.zeros((), np.int64)
    for axis in reversed(range(rank)) if storage_order else range(rank):
        first = np.arange(window.output[axis]) * window.strides[axis] - window.begin[axis]
        first = first.reshape(-1, *(1,) * (rank - 1 - axis))
        flat = flat * spatial[axis] + first + taps[axis] * window.dilations[axis]
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * rank)
    return flat + planes * int(np.prod(spatial))
