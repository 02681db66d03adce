"""Operators that pick elements by position: Gather, Scatter, Slice, TopK ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.allowance import hold
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import Ints, earlier, operator
from onnx_hw.onnx.operators.tensor_type import (
    TensorType,
    like_first,
    like_first_of,
    must_have_axes,
    normal_axes,
    normal_axis,
    same_dtype,
)


def gather_type(x: TensorType, indices: TensorType, *, axis: int = 0) -> TensorType:
    along = normal_axis(axis, x.ndim)
    return x.with_shape((*x.shape[:along], *indices.shape, *x.shape[along + 1 :]))


@operator(since=(1, 11, 13), types=gather_type, facts=Facts(Effect.KEEPS, moves=True))
def Gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """Take slices along one axis; negative indices count from the end."""
    return np.take(x, indices, axis=axis)


def gather_elements_type(x: TensorType, indices: TensorType, *, axis: int = 0) -> TensorType:
    along = normal_axis(axis, x.ndim)
    others = zip(x.shape, indices.shape, strict=False)
    if x.ndim != indices.ndim or any(k != along and length < count for k, (length, count) in enumerate(others)):
        raise ValueError(f"indices {list(indices.shape)} must have the axes of the data, {list(x.shape)}")
    return x.with_shape(indices.shape)


@operator(since=(11, 13), types=gather_elements_type)
def GatherElements(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """Take an element for each index, which replaces the position along one axis."""
    return x[_element_index(indices, axis, x.shape)]


def gather_nd_type(x: TensorType, indices: TensorType, *, batch_dims: int = 0) -> TensorType:
    places = indices.shape[-1] if indices.ndim else 0
    if not 0 <= batch_dims < indices.ndim or not 1 <= places <= x.ndim - batch_dims:
        raise ValueError(
            f"indices {list(indices.shape)} must end with the positions of 1 to {x.ndim - batch_dims} axes, and have "
            f"the {batch_dims} axes of the batch before"
        )
    if x.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise ValueError(f"data {list(x.shape)} and indices {list(indices.shape)} must be of the same batch")
    return x.with_shape((*indices.shape[:-1], *x.shape[batch_dims + indices.shape[-1] :]))


@operator(since=(12, 13), types=gather_nd_type)
def GatherND(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Take slices by positions in the last axis of ``indices``; the first ``batch_dims`` axes belong together."""
    batch = np.indices(indices.shape[:-1], sparse=True)[:batch_dims]
    return x[(*batch, *np.moveaxis(indices, -1, 0))]


earlier(GatherND, since=11, without=("batch_dims",))


@operator(since=18, types=like_first)
def ScatterElements(x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    """Put an update into ``x`` at each index, or add, multiply, maximise or minimise with it."""
    return _scattered(x, _element_index(indices, axis, x.shape), updates, reduction)


@operator(since=16, types=like_first)
def ScatterElements_16(x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    """Scatter elements without max and min."""
    if reduction in ("max", "min"):
        raise ValueError("reduction must be none, add or mul before opset 18")
    return ScatterElements(x, indices, updates, axis=axis, reduction=reduction)


earlier(ScatterElements, since=(11, 13), without=("reduction",))


@operator(since=(9, 11), types=like_first)
def Scatter(x: Array, indices: Array, updates: Array, *, axis: int = 0) -> Array:
    """Scatter elements: the old name of ScatterElements."""
    return ScatterElements(x, indices, updates, axis=axis)


@operator(since=18, types=like_first)
def ScatterND(x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    """Put slices at the positions in the last axis of ``indices``, or add, multiply ... with them."""
    return _scattered(x, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)


@operator(since=16, types=like_first)
def ScatterND_16(x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    """Scatter slices without max and min."""
    if reduction in ("max", "min"):
        raise ValueError("reduction must be none, add or mul before opset 18")
    return ScatterND(x, indices, updates, reduction=reduction)


earlier(ScatterND, since=(11, 13), without=("reduction",))


@operator(since=24, types=like_first)
def TensorScatter(
    x: Array, update: Array, write_indices: Array | None = None, *, axis: int = -2, mode: str = "linear"
) -> Array:
    """Write new entries into a cache along ``axis``, from a place per sample on; ``mode`` circular wraps around."""
    along = normal_axis(axis, x.ndim)
    if along == 0 or mode not in ("linear", "circular"):
        raise ValueError(f"axis must not be that of the batch, and mode must be linear or circular, not {mode}")
    start = np.zeros(x.shape[0], np.int64) if write_indices is None else write_indices
    position = start[:, None] + np.arange(update.shape[along])
    if mode == "circular":
        position %= x.shape[along]
    elif position.size and (position.min() < 0 or position.max() >= x.shape[along]):
        raise ValueError(f"entries must fit into {x.shape[along]} places, not reach {int(position.max())}")
    y = np.moveaxis(x, along, 1).copy()
    y[np.arange(x.shape[0])[:, None], position] = np.moveaxis(update, along, 1)
    return np.moveaxis(y, 1, along)


def slice_type(
    x: TensorType,
    starts: TensorType,
    ends: TensorType,
    axes: TensorType | None = None,
    steps: TensorType | None = None,
) -> TensorType:
    assert starts.value is not None and ends.value is not None  # they decide the shape
    return _sliced_type(x, starts.value, ends.value, _value(axes), _value(steps))


@operator(since=(10, 11, 13), types=slice_type, shape_inputs=(1, 2, 3, 4), facts=Facts(Effect.KEEPS, moves=True))
def Slice(x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Array:
    """Slice as Python does, steps below zero included; the other axes stay whole."""
    return x[slices(x.shape, starts, ends, axes, steps)]


def slice_1_type(x: TensorType, *, axes: Ints | None = None, ends: Ints, starts: Ints) -> TensorType:
    return _sliced_type(x, starts, ends, axes, None)


@operator(since=1, types=slice_1_type)
def Slice_1(x: Array, *, axes: Ints | None = None, ends: Ints, starts: Ints) -> Array:
    return x[slices(x.shape, starts, ends, axes, None)]


def slices(
    shape: tuple[int, ...],
    starts: Sequence[int] | Array,
    ends: Sequence[int] | Array,
    axes: Sequence[int] | Array | None,
    steps: Sequence[int] | Array | None,
) -> tuple[slice, ...]:
    """Return one slice per axis; raise ``ValueError`` for lists of different lengths, an axis twice, a step of 0."""
    count = len(starts)
    which = normal_axes(range(count) if axes is None else axes, len(shape))  # type: ignore[arg-type]
    strides = [1] * count if steps is None else [int(step) for step in steps]
    if not len(ends) == len(which) == len(strides) == count or 0 in strides:
        raise ValueError("starts, ends, axes and steps must have the same length, and no step may be 0")
    result = [slice(None)] * len(shape)
    for axis, start, end, step in zip(which, starts, ends, strides, strict=True):
        if step < 0 and int(end) < -shape[axis]:
            result[axis] = slice(int(start), None, step)  # down to the first element
        else:
            result[axis] = slice(int(start), int(end), step)
    return tuple(result)


def _sliced_type(
    x: TensorType,
    starts: Sequence[int] | Array,
    ends: Sequence[int] | Array,
    axes: Sequence[int] | Array | None,
    steps: Sequence[int] | Array | None,
) -> TensorType:
    cuts = slices(x.shape, starts, ends, axes, steps)
    return x.with_shape([len(range(*cut.indices(n))) for cut, n in zip(cuts, x.shape, strict=True)])


@operator(since=(9, 11, 28), dynamic=True)
def Compress(x: Array, condition: Array, *, axis: int | None = None) -> Array:
    return np.compress(condition, x, axis=axis)


@operator(since=(9, 13), dynamic=True)
def NonZero(x: Array) -> Array:
    """Return the positions of the elements that are not zero: (rank, count) int64."""
    if not x.ndim:
        return np.empty((0, int(bool(x))), np.int64)  # a scalar has one position, of no coordinates
    return np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1)


@operator(since=(11, 28), dynamic=True)
def Unique(x: Array, *, axis: int | None = None, sorted: int = 1) -> tuple[Array, Array, Array, Array]:
    """Return unique elements or slices, the first position of each, which one each is, and how often it occurs."""
    y, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        rank = np.argsort(order)
        y = np.take(y, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return y, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def one_hot_type(indices: TensorType, depth: TensorType, values: TensorType, *, axis: int = -1) -> TensorType:
    assert depth.value is not None  # it decides the shape
    along = normal_axis(axis, indices.ndim + 1)
    count = int(depth.value.reshape(()))
    return values.with_shape((*indices.shape[:along], count, *indices.shape[along:]))


@operator(since=(9, 11, 28), types=one_hot_type, shape_inputs=(1,))
def OneHot(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    """Add an axis with the second value at the index, the first elsewhere; indices out of range have no position."""
    along = normal_axis(axis, indices.ndim + 1)
    count = int(depth.reshape(()))
    positions = np.expand_dims(indices.astype(np.int64), along)
    positions = np.where(positions < 0, positions + count, positions)
    hold((count,), np.int64)
    places = np.arange(count).reshape(-1, *(1,) * (indices.ndim - along))
    return np.where(places == positions, values[1], values[0])


def reverse_sequence_type(x: TensorType, lengths: TensorType, *, batch_axis: int = 1, **_: int) -> TensorType:
    must_have_axes(x, 2)
    if lengths.shape != (x.shape[batch_axis],):
        raise ValueError(f"sequence_lens must be of the shape [{x.shape[batch_axis]}], not {list(lengths.shape)}")
    return like_first(x)


@operator(since=(10, 28), types=reverse_sequence_type)
def ReverseSequence(x: Array, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Array:
    """Reverse the first ``lengths[sample]`` time steps of each sample."""
    if {batch_axis, time_axis} != {0, 1}:
        raise ValueError("batch_axis and time_axis must be 0 and 1, in either order")
    times = np.arange(x.shape[time_axis])
    order = np.where(times < lengths[:, None], lengths[:, None] - 1 - times, times)
    batch = np.arange(x.shape[batch_axis])
    return x[batch[:, None], order] if batch_axis == 0 else x[order.T, batch]


@operator(since=14, types=like_first_of(2))
def Trilu(x: Array, k: Array | None = None, *, upper: int = 1) -> Array:
    """Keep the upper or lower triangle of each matrix, ``k`` diagonals above the main one."""
    diagonal = 0 if k is None else int(k.reshape(()))
    return np.triu(x, diagonal) if upper else np.tril(x, diagonal)


def top_k_type(x: TensorType, k: TensorType, *, axis: int = -1, **_: int) -> tuple[TensorType, TensorType]:
    assert k.value is not None  # it decides the shape
    return _top_type(x, int(k.value.reshape(())), axis)


def top_k_1_type(x: TensorType, *, axis: int = -1, k: int) -> tuple[TensorType, TensorType]:
    return _top_type(x, k, axis)


@operator(since=(11, 24), types=top_k_type, shape_inputs=(1,))
def TopK(x: Array, k: Array, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Array, Array]:
    """Return the k largest or smallest values and their indices; among equals the first come first."""
    del sorted  # they always are, which the unsorted order allows
    return top(x, int(k.reshape(())), axis, bool(largest))


@operator(since=10, types=top_k_type, shape_inputs=(1,))
def TopK_10(x: Array, k: Array, *, axis: int = -1) -> tuple[Array, Array]:
    return top(x, int(k.reshape(())), axis, True)


@operator(since=1, types=top_k_1_type)
def TopK_1(x: Array, *, axis: int = -1, k: int) -> tuple[Array, Array]:
    return top(x, k, axis, True)


def top(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    along = normal_axis(axis, x.ndim)
    if not 0 <= k <= x.shape[along]:
        raise ValueError(f"k must be within 0..{x.shape[along]}, not {k}")
    if largest:  # sorted backwards, so that a stable sort keeps the first of equals in front
        order = x.shape[along] - 1 - np.flip(np.argsort(np.flip(x, along), axis=along, kind="stable"), along)
    else:
        order = np.argsort(x, axis=along, kind="stable")
    order = np.take(order, np.arange(k), axis=along)
    return np.take_along_axis(x, order, along), order.astype(np.int64)


def _top_type(x: TensorType, k: int, axis: int) -> tuple[TensorType, TensorType]:
    along = normal_axis(axis, x.ndim)
    if not 0 <= k <= x.shape[along]:
        raise ValueError(f"k must be within 0..{x.shape[along]}, not {k}")
    y = x.with_shape((*x.shape[:along], k, *x.shape[along + 1 :]))
    return y, y.with_dtype(np.int64)


def _element_index(indices: Array, axis: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the index of an element for each entry: itself along ``axis``, its place along the others."""
    index: list[Any] = list(np.indices(indices.shape, sparse=True))
    index[normal_axis(axis, len(shape))] = indices
    return tuple(index)


_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scattered(x: Array, index: tuple[Any, ...], updates: Array, reduction: str) -> Array:
    same_dtype(TensorType(x.dtype, x.shape), TensorType(updates.dtype, updates.shape))
    y = x.copy()
    if reduction == "none":
        y[index] = updates
    elif reduction in _REDUCTIONS:
        _REDUCTIONS[reduction].at(y, index, updates)
    else:
        raise ValueError(f"reduction must be none, {', '.join(_REDUCTIONS)}, not {reduction}")
    return y


def _value(x: TensorType | None) -> Array | None:
    return None if x is None else x.value
