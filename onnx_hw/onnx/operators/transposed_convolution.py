"""Transposed convolutions (ConvTranspose, Col2Im, MaxUnpool): windows written instead of read, a tap at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.allowance import hold, spend
from onnx_hw.onnx.operators.dtypes import Array, widen
from onnx_hw.onnx.operators.facts import Effect, Facts, Weights
from onnx_hw.onnx.operators.macs import scattered_macs
from onnx_hw.onnx.operators.registry import Ints, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, must_have_axes, same_dtype
from onnx_hw.onnx.operators.windows import SpatialWindow


def conv_transpose_type(
    x: TensorType, w: TensorType, b: TensorType | None = None, *, group: int = 1, **attributes: Any
) -> TensorType:
    same_dtype(x, w, b)
    window = transposed_window(x.shape, w.shape, group=group, **attributes)
    return x.with_shape((x.shape[0], w.shape[1] * group, *_image(window)))


def transposed_window(
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints | None = None,
    group: int = 1,
    kernel_shape: Ints | None = None,
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> SpatialWindow:
    """Return the window of the convolution whose adjoint is meant: it reads the result and yields ``x``.

    ``begin`` and ``end`` may be negative where ``output_shape`` asks for more than the windows write. Formulas: ONNX
    operator specification of ConvTranspose.

    Raises:
        ValueError: shapes and attributes do not fit together.
    """
    rank = len(x) - 2
    if rank < 1 or len(w) != len(x) or w[0] != x[1] or group < 1 or x[1] % group:
        raise ValueError(f"weights {list(w)} in {group} groups do not fit an input {list(x)}")
    if kernel_shape is not None and tuple(kernel_shape) != w[2:]:
        raise ValueError(f"kernel_shape must be that of W, {list(w[2:])}, not {list(kernel_shape)}")
    stride = _each(strides, rank, 1)
    dilation = _each(dilations, rank, 1)
    extra = _each(output_padding, rank, 0)
    spans = [
        s * (n - 1) + more + (k - 1) * d + 1
        for n, s, d, k, more in zip(x[2:], stride, dilation, w[2:], extra, strict=True)
    ]
    if output_shape is not None:
        lengths = tuple(output_shape[-rank:])
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        lengths = tuple(n * s for n, s in zip(x[2:], stride, strict=True))
    else:
        both = _each(pads if auto_pad in ("NOTSET", "") else None, 2 * rank, 0)
        return SpatialWindow(w[2:], stride, dilation, both[:rank], _ends(spans, both, extra), x[2:])
    total = [span - length for span, length in zip(spans, lengths, strict=True)]
    half = [pad // 2 if auto_pad == "SAME_UPPER" else pad - pad // 2 for pad in total]
    rest = [pad - h - more for pad, h, more in zip(total, half, extra, strict=True)]
    return SpatialWindow(w[2:], stride, dilation, tuple(half), tuple(rest), x[2:])


@operator(
    since=(1, 11, 22),
    types=conv_transpose_type,
    attributes_of=transposed_window,
    facts=Facts(Effect.SUMS, scattered_macs, Weights(1, axis=1, channel=1, constant=True)),
)
def ConvTranspose(x: Array, w: Array, b: Array | None = None, *, group: int = 1, **attributes: Any) -> Array:
    """Convolve transposed: ``x`` (batch, channels, *spatial), ``w`` (channels, outputs / group, *kernel).

    It is the adjoint of Conv.
    """
    window = transposed_window(x.shape, w.shape, group=group, **attributes)
    batch, channels = x.shape[:2]
    outputs = w.shape[1] * group
    pixels = widen(x).reshape(batch, group, channels // group, -1)
    weights = widen(w).reshape(group, channels // group, -1).swapaxes(1, 2)
    hold((batch, outputs, *window.kernel, *window.output), pixels.dtype)
    spend(0, products=pixels.size * weights.shape[1])
    columns = np.matmul(weights, pixels).reshape(batch, outputs, *window.kernel, *window.output)
    y = fold(columns, window, _image(window))
    if b is not None:
        y += b.reshape(-1, *(1,) * len(window.kernel))
    return y.astype(x.dtype, copy=False)


def _ends(spans: Sequence[int], pads: Sequence[int], extra: Sequence[int]) -> tuple[int, ...]:
    rank = len(spans)
    ends = tuple(pad - more for pad, more in zip(pads[rank:], extra, strict=True))
    if any(span - first - last < 1 for span, first, last in zip(spans, pads[:rank], pads[rank:], strict=True)):
        raise ValueError("the padding must leave something of the output")
    return ends


def _image(window: SpatialWindow) -> tuple[int, ...]:
    """Return the spatial shape that the windows read: what they span, less the padding."""
    return tuple(
        (out - 1) * stride + (kernel - 1) * dilation + 1 - begin - end
        for out, stride, kernel, dilation, begin, end in zip(
            window.output, window.strides, window.kernel, window.dilations, window.begin, window.end, strict=True
        )
    )


def fold(columns: Array, window: SpatialWindow, image: Sequence[int]) -> Array:
    """Add up each window's elements ``(batch, channels, *kernel, *output)`` where they lie in an image."""
    batch, channels = columns.shape[:2]
    reach = [
        max((out - 1) * stride + (kernel - 1) * dilation + 1, begin + length)
        for out, stride, kernel, dilation, begin, length in zip(
            window.output, window.strides, window.kernel, window.dilations, window.begin, image, strict=True
        )
    ]
    before = [max(-begin, 0) for begin in window.begin]
    shape = (batch, channels, *(n + more for n, more in zip(reach, before, strict=True)))
    hold(shape, columns.dtype)
    spend(columns.size, calls=prod(window.kernel))
    whole = np.zeros(shape, columns.dtype)
    everything = (slice(None), slice(None))
    for tap in product(*map(range, window.kernel)):
        area = tuple(
            slice(more + k * d, more + k * d + (out - 1) * s + 1, s)
            for k, d, out, s, more in zip(tap, window.dilations, window.output, window.strides, before, strict=True)
        )
        whole[everything + area] += columns[everything + tap]
    kept = tuple(slice(more + b, more + b + n) for more, b, n in zip(before, window.begin, image, strict=True))
    return np.ascontiguousarray(whole[everything + kept])


def col2im_type(x: TensorType, image_shape: TensorType, block_shape: TensorType, **_: Any) -> TensorType:
    assert image_shape.value is not None and block_shape.value is not None  # they decide the shape
    must_have_axes(x, 3, 3)
    block = int(np.prod(block_shape.value))
    if block < 1 or x.shape[1] % block:
        raise ValueError(f"the second axis of {list(x.shape)} must hold whole blocks of {block}")
    channels = x.shape[1] // block
    return x.with_shape((x.shape[0], channels, *image_shape.value.tolist()))


@operator(since=18, types=col2im_type, shape_inputs=(1, 2))
def Col2Im(
    x: Array,
    image_shape: Array,
    block_shape: Array,
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> Array:
    """Add up columns ``(batch, channels * block, positions)`` into an image."""
    image, kernel = tuple(image_shape.tolist()), tuple(block_shape.tolist())
    rank = len(image)
    stride, dilation, both = _each(strides, rank, 1), _each(dilations, rank, 1), _each(pads, 2 * rank, 0)
    output = tuple(
        (n + before + after - (k - 1) * d - 1) // s + 1
        for n, before, after, k, d, s in zip(image, both[:rank], both[rank:], kernel, dilation, stride, strict=True)
    )
    window = SpatialWindow(kernel, stride, dilation, both[:rank], both[rank:], output)
    return fold(x.reshape(x.shape[0], x.shape[1] // prod(kernel), *kernel, *output), window, image)


def unpooled_shape(
    shape: tuple[int, ...],
    output_shape: Array | None,
    *,
    kernel_shape: Ints,
    pads: Ints | None = None,
    strides: Ints | None = None,
) -> tuple[int, ...]:
    if output_shape is not None:
        return tuple(output_shape.tolist())
    rank = len(kernel_shape)
    stride, both = _each(strides, rank, 1), _each(pads, 2 * rank, 0)
    spatial = [
        (n - 1) * s + k - before - after
        for n, s, k, before, after in zip(shape[2:], stride, kernel_shape, both[:rank], both[rank:], strict=True)
    ]
    return (*shape[:2], *spatial)


def max_unpool_type(
    x: TensorType, _: TensorType, output_shape: TensorType | None = None, **attributes: Any
) -> TensorType:
    return x.with_shape(unpooled_shape(x.shape, None if output_shape is None else output_shape.value, **attributes))


@operator(since=(9, 11, 22), types=max_unpool_type, shape_inputs=(2,), attributes_of=unpooled_shape)
def MaxUnpool(x: Array, indices: Array, output_shape: Array | None = None, **attributes: Any) -> Array:
    """Put the maxima where MaxPool found them, zeros elsewhere."""
    smallest = unpooled_shape(x.shape, None, **attributes)
    hold(smallest, x.dtype)
    y = np.zeros(int(np.prod(smallest)), x.dtype)
    y[indices.reshape(-1)] = x.reshape(-1)
    y = y.reshape(smallest)
    if output_shape is None or tuple(output_shape.tolist()) == smallest:
        return y
    larger = np.zeros(output_shape.tolist(), x.dtype)
    larger[tuple(slice(0, n) for n in smallest)] = y
    return larger


def _each(values: Sequence[int] | None, count: int, default: int) -> tuple[int, ...]:
    if not values:
        return (default,) * count
    if len(values) != count:
        raise ValueError(f"an attribute must have {count} entries, not {len(values)}")
    return tuple(values)
