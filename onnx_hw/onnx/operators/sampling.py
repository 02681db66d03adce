"""Sampling between the pixels: GridSample, AffineGrid, RoiAlign, MaxRoiPool, DeformConv."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.allowance import hold, spend
from onnx_hw.onnx.operators.convolution import conv_type, conv_window
from onnx_hw.onnx.operators.dtypes import Array, widen
from onnx_hw.onnx.operators.facts import Facts, Weights
from onnx_hw.onnx.operators.macs import window_macs
from onnx_hw.onnx.operators.pooling import lowest
from onnx_hw.onnx.operators.registry import Ints, operator
from onnx_hw.onnx.operators.resize import cubic
from onnx_hw.onnx.operators.tensor_type import TensorType

Border = Callable[[Array, int], Array]


def grid_sample_type(x: TensorType, grid: TensorType, **_: int | str) -> TensorType:
    return x.with_shape((*x.shape[:2], *grid.shape[1:-1]))


@operator(since=(20, 22), types=grid_sample_type)
def GridSample(
    x: Array, grid: Array, *, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Array:
    """Sample ``x`` (batch, channels, *spatial) at ``grid`` (batch, *output, rank): -1 to 1, last axis first."""
    if mode not in ("linear", "nearest", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"mode must be linear, nearest or cubic and padding_mode one that ONNX knows, not {mode}, {padding_mode}"
        )
    lengths = np.array(x.shape[2:])
    positions = grid[..., ::-1].astype(np.float64)
    span = lengths - 1 if align_corners else lengths
    positions = (positions + 1) / 2 * span + (0 if align_corners else -0.5)
    low = np.zeros(len(lengths)) if align_corners else np.full(len(lengths), -0.5)
    if padding_mode == "border":
        positions = np.clip(positions, 0, lengths - 1)
    elif padding_mode == "reflection":
        positions = reflect(positions, low, low + span)

    def border(taps: Array, axis: int) -> Array:
        """Move taps beyond the ends inside; -1 where the value is zero."""
        last = x.shape[2 + axis] - 1
        if padding_mode == "zeros":
            return np.where((taps < 0) | (taps > last), -1, taps)
        if padding_mode == "reflection":
            taps = np.rint(reflect(taps.astype(np.float64), low[axis], low[axis] + span[axis])).astype(np.int64)
        return np.clip(taps, 0, last)

    return sample_at(widen(x), positions, mode, border).astype(x.dtype, copy=False)


@operator(since=16, types=grid_sample_type)
def GridSample_16(
    x: Array, grid: Array, *, align_corners: int = 0, mode: str = "bilinear", padding_mode: str = "zeros"
) -> Array:
    """Sample; the modes have their two-dimensional names."""
    names = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}
    if mode not in names:
        raise ValueError(f"mode must be one of {', '.join(names)}, not {mode}")
    return GridSample(x, grid, align_corners=align_corners, mode=names[mode], padding_mode=padding_mode)


def reflect(positions: Array, low: Array, high: Array) -> Array:
    """Fold positions back at both ends until they lie inside."""
    span = np.maximum(high - low, 1e-300)
    along = np.abs(positions - low)
    turns = np.floor(along / span)
    rest = along - turns * span
    return np.where(turns % 2 == 0, low + rest, high - rest)


def sample_at(x: Array, positions: Array, mode: str, border: Border) -> Array:
    """Sample ``x`` at positions (batch, *output, rank), in elements along each axis: (batch, channels, *output).

    Args:
        border: function (taps, axis) -> taps inside, or -1 where the value is zero.
    """
    batch, channels = x.shape[:2]
    rank = x.ndim - 2
    if mode == "nearest":
        base = np.rint(positions).astype(np.int64)
        taps, weights = base[None], np.ones((1, *positions.shape))
    else:
        base = np.floor(positions).astype(np.int64)
        steps = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        taps = np.stack([base + step for step in steps])
        distance = np.abs(taps - positions)
        weights = 1 - distance if mode == "linear" else cubic(distance, -0.75)
    inside = np.stack([border(taps[..., axis], axis) for axis in range(rank)], axis=-1)
    weights = np.where(inside < 0, 0, weights)
    inside = np.maximum(inside, 0)
    flat = x.reshape(batch, channels, -1)
    shape = positions.shape[1:-1]
    hold((len(taps), *positions.shape))
    spend(8 * len(taps) ** rank * (positions.size + channels * positions[..., 0].size), calls=8 * len(taps) ** rank)
    y = np.zeros((batch, channels, int(np.prod(shape))), x.dtype)
    for corner in product(range(len(taps)), repeat=rank):
        index = np.zeros(positions.shape[:-1], np.int64)
        weight = np.ones(positions.shape[:-1])
        for axis, tap in enumerate(corner):
            index = index * x.shape[2 + axis] + inside[tap, ..., axis]
            weight = weight * weights[tap, ..., axis]
        values = np.take_along_axis(flat, index.reshape(batch, 1, -1), axis=2)
        y += values * weight.reshape(batch, 1, -1).astype(x.dtype)
    return y.reshape(batch, channels, *shape)


def affine_grid_type(theta: TensorType, size: TensorType, **_: int) -> TensorType:
    assert size.value is not None  # it decides the shape
    batch, _channels, *spatial = size.value.tolist()
    return theta.with_shape((batch, *spatial, len(spatial)))


@operator(since=20, types=affine_grid_type, shape_inputs=(1,))
def AffineGrid(theta: Array, size: Array, *, align_corners: int = 0) -> Array:
    """Make positions for GridSample: each pixel's own, from -1 to 1, mapped by matrices (batch, rank, rank + 1)."""
    batch, _channels, *spatial = size.tolist()
    axes = []
    for length in spatial:
        if align_corners:
            axes.append(np.linspace(-1, 1, length) if length > 1 else np.zeros(1))
        else:
            axes.append((2 * np.arange(length) + 1) / length - 1)
    own = np.stack(np.meshgrid(*axes, indexing="ij")[::-1], axis=-1).reshape(-1, len(spatial))
    points = np.concatenate([own, np.ones((len(own), 1))], axis=1)
    grid = points @ theta.astype(np.float64).swapaxes(1, 2)
    return grid.reshape(batch, *spatial, len(spatial)).astype(theta.dtype)


def roi_type(
    x: TensorType, rois: TensorType, _: TensorType, *, output_height: int = 1, output_width: int = 1, **__: object
) -> TensorType:
    return x.with_shape((rois.shape[0], x.shape[1], output_height, output_width))


@operator(since=(16, 22), types=roi_type)
def RoiAlign(
    x: Array,
    rois: Array,
    batch_indices: Array,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:
    """Sample each region (x1, y1, x2, y2) in a grid of bins; return the mean or maximum of the points in each."""
    if mode not in ("avg", "max"):
        raise ValueError(f"mode must be avg or max, not {mode}")
    half_pixel = coordinate_transformation_mode == "half_pixel"
    bins = (output_height, output_width)
    wide = widen(x)
    results = [np.zeros((0, x.shape[1], *bins), wide.dtype)]
    for roi, sample in zip(rois.astype(np.float64), batch_indices, strict=True):
        start = roi[1::-1] * spatial_scale - (0.5 if half_pixel else 0.0)
        extent = (roi[:1:-1] - roi[1::-1]) * spatial_scale
        extent = extent if half_pixel else np.maximum(extent, 1)
        points = []
        for axis in range(2):
            hold((bins[axis],))
            count = sampling_ratio or max(int(np.ceil(extent[axis] / bins[axis])), 1)
            within = (np.arange(count) + 0.5) / count
            hold((bins[axis], count))
            points.append(start[axis] + extent[axis] / bins[axis] * (np.arange(bins[axis])[:, None] + within))
        results.append(_pool_bins(wide[int(sample)], points[0], points[1], mode)[None])
    return np.concatenate(results).astype(x.dtype, copy=False)


@operator(since=10, types=roi_type)
def RoiAlign_10(
    x: Array,
    rois: Array,
    batch_indices: Array,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:
    """Align regions without the shift by half a pixel."""
    return RoiAlign(
        x,
        rois,
        batch_indices,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )


def _pool_bins(image: Array, rows: Array, columns: Array, mode: str) -> Array:
    """Return for each bin the mean, or the greatest weighted corner value, at its points: (channels, bins, bins).

    Args:
        rows, columns: (bins, points) positions. A point further than one pixel outside counts as zero.
    """
    height, width = image.shape[1:]
    weights, taps = [], []
    hold((len(image), rows.size, columns.size))
    spend(8 * len(image) * rows.size * columns.size, calls=16)
    for positions, length in ((rows, height), (columns, width)):
        outside = (positions < -1) | (positions > length)
        held = np.clip(positions, 0, length - 1)
        low = np.minimum(np.floor(held).astype(np.int64), max(length - 2, 0))
        part = held - low
        weights.append([np.where(outside, 0, 1 - part), np.where(outside, 0, part)])
        taps.append([low, np.minimum(low + 1, length - 1)])
    corners = [
        image[:, taps[0][i][:, :, None, None], taps[1][j][None, None]]
        * (weights[0][i][:, :, None, None] * weights[1][j][None, None]).astype(image.dtype)
        for i, j in product(range(2), repeat=2)
    ]
    if mode == "avg":
        return sum(corners).mean(axis=(2, 4))
    return np.maximum.reduce(corners).max(axis=(2, 4))


def max_roi_type(x: TensorType, rois: TensorType, *, pooled_shape: Ints, **_: float) -> TensorType:
    return x.with_shape((rois.shape[0], x.shape[1], *pooled_shape))


@operator(since=(1, 22), types=max_roi_type)
def MaxRoiPool(x: Array, rois: Array, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Array:
    """Return the maximum of each bin of regions (sample, x1, y1, x2, y2), rounded to whole pixels; empty: zero."""
    spend(len(rois) * x[:1].size, calls=len(rois) * pooled_shape[0] * pooled_shape[1])
    y = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
    for number, roi in enumerate(rois):
        image = x[int(roi[0])]
        corners = np.floor(roi[1:].astype(np.float64) * spatial_scale + 0.5).astype(np.int64)
        edges = []
        for axis, (first, last) in enumerate(((corners[1], corners[3]), (corners[0], corners[2]))):
            step = max(last - first + 1, 1) / pooled_shape[axis]
            k = np.arange(pooled_shape[axis])
            bounds = np.stack([np.floor(k * step), np.ceil((k + 1) * step)]) + first
            edges.append(np.clip(bounds, 0, image.shape[1 + axis]).astype(np.int64))
        for i, j in product(*map(range, pooled_shape)):
            part = image[:, edges[0][0, i] : edges[0][1, i], edges[1][0, j] : edges[1][1, j]]
            if part.size:
                y[number, :, i, j] = part.max(axis=(1, 2), initial=lowest(x.dtype))
    return y


def deform_conv_type(
    x: TensorType,
    w: TensorType,
    _: TensorType,
    b: TensorType | None = None,
    __: TensorType | None = None,
    **attributes: Any,
) -> TensorType:
    return conv_type(x, w, b, **attributes)


@operator(
    since=(19, 22),
    types=deform_conv_type,
    attributes_of=conv_window,
    without=("auto_pad",),
    facts=Facts(macs=window_macs(1), weights=Weights(1, axis=0, channel=1)),
)
def DeformConv(
    x: Array,
    w: Array,
    offset: Array,
    b: Array | None = None,
    mask: Array | None = None,
    *,
    group: int = 1,
    offset_group: int = 1,
    **attributes: Any,
) -> Array:
    """Convolve with every tap moved by an offset of its own, per output pixel, and weighted by a mask."""
    window = conv_window(x.shape, w.shape, group=group, **attributes)
    batch, channels = x.shape[:2]
    rank, taps = len(window.kernel), int(np.prod(window.kernel))
    moves = offset.reshape(batch, offset_group, taps, rank, *window.output).astype(np.float64)
    weight = None if mask is None else mask.reshape(batch, offset_group, taps, 1, *window.output)
    parts = widen(x).reshape(batch * offset_group, channels // offset_group, *x.shape[2:])
    origin = np.stack(np.meshgrid(*map(np.arange, window.output), indexing="ij"), axis=-1)
    origin = origin * np.array(window.strides) - np.array(window.begin)

    def border(tap: Array, axis: int) -> Array:
        return np.where((tap < 0) | (tap >= x.shape[2 + axis]), -1, tap)

    hold((batch, channels, taps, *window.output))
    columns = []
    for number, tap in enumerate(np.ndindex(*window.kernel)):
        moved = np.moveaxis(moves[:, :, number], 2, -1).reshape(batch * offset_group, *window.output, rank)
        positions = origin + np.array(tap) * np.array(window.dilations) + moved
        samples = sample_at(parts, positions, "linear", border)
        if weight is not None:
            samples = samples * weight[:, :, number].reshape(batch * offset_group, 1, *window.output)
        columns.append(samples.reshape(batch, group, channels // group, -1))
    matrix = np.stack(columns, axis=3).reshape(batch, group, channels // group * taps, -1)
    y = widen(w).reshape(group, w.shape[0] // group, -1) @ matrix
    y = y.reshape(batch, w.shape[0], *window.output)
    if b is not None:
        y = y + b.reshape(-1, *(1,) * rank)
    return y.astype(x.dtype, copy=False)
