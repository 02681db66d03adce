"""Operators that move, add or drop axes without touching a value: Reshape, Transpose, Flatten, Squeeze ..."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import OF_NO_DATA, Effect, Facts
from onnx_hw.onnx.operators.registry import Ints, earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, broadcast_shape, like_first, normal_axes, normal_axis


@operator(since=(1, 13, 14, 16, 19, 21, 23, 24, 25), types=like_first, facts=Facts(Effect.KEEPS, moves=True))
def Identity(x: Array) -> Array:
    return x


def reshape_type(x: TensorType, shape: TensorType, *, allowzero: int = 0) -> TensorType:
    assert shape.value is not None  # it decides the shape
    return x.with_shape(new_shape(x.shape, shape.value, allowzero))


@operator(
    since=(14, 19, 21, 23, 24, 25),
    types=reshape_type,
    shape_inputs=(1,),
    facts=Facts(Effect.KEEPS, moves=True, shape_at=1),
)
def Reshape(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    """Change the shape: -1 takes what is left; 0 keeps the length of ``x`` there, unless ``allowzero``."""
    return x.reshape(new_shape(x.shape, shape, allowzero))


def reshape_5_type(x: TensorType, shape: TensorType) -> TensorType:
    return reshape_type(x, shape)


@operator(since=(5, 13), types=reshape_5_type, shape_inputs=(1,))
def Reshape_5(x: Array, shape: Array) -> Array:
    return x.reshape(new_shape(x.shape, shape, 0))


def reshape_1_type(x: TensorType, *, shape: Ints | None = None) -> TensorType:
    return x.with_shape(new_shape(x.shape, shape or (), 0))


@operator(since=1, types=reshape_1_type, hints=("consumed_inputs",))
def Reshape_1(x: Array, *, shape: Ints | None = None) -> Array:
    return x.reshape(new_shape(x.shape, shape or (), 0))


def new_shape(old: tuple[int, ...], shape: Sequence[int] | Array, allowzero: int) -> tuple[int, ...]:
    """Return the shape that Reshape means.

    Raises:
        ValueError: more than one -1, a 0 without counterpart, or another number of elements.
    """
    lengths = [int(length) for length in shape]
    if not allowzero:
        if any(length == 0 and axis >= len(old) for axis, length in enumerate(lengths)):
            raise ValueError(f"0 in shape must stand for an axis of the input, {list(old)}, not in {lengths}")
        lengths = [old[axis] if length == 0 else length for axis, length in enumerate(lengths)]
    size, known, free = 1, 1, lengths.count(-1)
    for length in old:
        size *= length
    for length in lengths:
        known *= 1 if length == -1 else length
    if free > 1 or min(lengths, default=0) < -1:
        raise ValueError(f"shape must have at most one -1 and no smaller number, not {lengths}")
    if free:
        if known == 0 or size % known:
            raise ValueError(f"{size} elements of {list(old)} cannot be reshaped to {lengths}")
        lengths[lengths.index(-1)] = size // known
    elif known != size:
        raise ValueError(f"{size} elements of {list(old)} cannot be reshaped to {lengths}, which holds {known}")
    return tuple(lengths)


def transpose_type(x: TensorType, *, perm: Ints | None = None) -> TensorType:
    return x.with_shape([x.shape[axis] for axis in permutation(perm, x.ndim)])


@operator(since=(1, 13, 21, 23, 24, 25), types=transpose_type, facts=Facts(Effect.KEEPS, moves=True))
def Transpose(x: Array, *, perm: Ints | None = None) -> Array:
    """Permute the axes: axis ``i`` of the result is axis ``perm[i]`` of ``x``; by default the order is reversed."""
    return x.transpose(permutation(perm, x.ndim))


def permutation(perm: Ints | None, rank: int) -> tuple[int, ...]:
    """Return the order of axes; raise ``ValueError`` unless every axis is named exactly once."""
    if perm is None:
        return tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise ValueError(f"perm must have each of the axes 0..{rank - 1} once, not {list(perm)}")
    return tuple(perm)


def flatten_type(x: TensorType, *, axis: int = 1) -> TensorType:
    return x.with_shape(flat_shape(x.shape, axis))


@operator(since=(1, 9, 11, 13, 21, 23, 24, 25), types=flatten_type, facts=Facts(Effect.KEEPS, moves=True))
def Flatten(x: Array, *, axis: int = 1) -> Array:
    """Make a matrix: the axes before ``axis`` are its rows, the others its columns."""
    return x.reshape(flat_shape(x.shape, axis))


def flat_shape(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    cut = axis if axis == len(shape) else normal_axis(axis, len(shape))
    rows = columns = 1
    for number, length in enumerate(shape):
        if number < cut:
            rows *= length
        else:
            columns *= length
    return rows, columns


def squeeze_1_type(x: TensorType, *, axes: Ints | None = None) -> TensorType:
    return x.with_shape(squeezed(x.shape, axes))


@operator(since=(1, 11), types=squeeze_1_type)
def Squeeze_1(x: Array, *, axes: Ints | None = None) -> Array:
    return x.reshape(squeezed(x.shape, axes))


def squeeze_type(x: TensorType, axes: TensorType | None = None) -> TensorType:
    return x.with_shape(squeezed(x.shape, None if axes is None else axes.value))


@operator(since=(13, 21, 23, 24, 25), types=squeeze_type, shape_inputs=(1,), facts=Facts(Effect.KEEPS, moves=True))
def Squeeze(x: Array, axes: Array | None = None) -> Array:
    """Drop the axes, by default all of length 1."""
    return x.reshape(squeezed(x.shape, axes))


def squeezed(shape: tuple[int, ...], axes: Sequence[int] | Array | None) -> tuple[int, ...]:
    """Return ``shape`` without ``axes``; raise ``ValueError`` for one out of range or of a length other than 1."""
    if axes is None:
        return tuple(length for length in shape if length != 1)
    dropped = normal_axes(axes, len(shape))  # type: ignore[arg-type]
    if any(shape[axis] != 1 for axis in dropped):
        raise ValueError(f"only axes of length 1 can be dropped, not {list(dropped)} of {list(shape)}")
    return tuple(length for axis, length in enumerate(shape) if axis not in dropped)


def unsqueeze_1_type(x: TensorType, *, axes: Ints) -> TensorType:
    return x.with_shape(unsqueezed(x.shape, axes))


@operator(since=(1, 11), types=unsqueeze_1_type)
def Unsqueeze_1(x: Array, *, axes: Ints) -> Array:
    return x.reshape(unsqueezed(x.shape, axes))


def unsqueeze_type(x: TensorType, axes: TensorType) -> TensorType:
    assert axes.value is not None  # it decides the shape
    return x.with_shape(unsqueezed(x.shape, axes.value))


@operator(since=(13, 21, 23, 24, 25), types=unsqueeze_type, shape_inputs=(1,), facts=Facts(Effect.KEEPS, moves=True))
def Unsqueeze(x: Array, axes: Array) -> Array:
    """Add axes of length 1 at these places of the result."""
    return x.reshape(unsqueezed(x.shape, axes))


def unsqueezed(shape: tuple[int, ...], axes: Sequence[int] | Array) -> tuple[int, ...]:
    new = set(normal_axes(np.atleast_1d(np.asarray(axes)).tolist(), len(shape) + np.size(axes)))
    old = iter(shape)
    return tuple(1 if axis in new else next(old) for axis in range(len(shape) + len(new)))


def shape_type(x: TensorType, *, end: int | None = None, start: int = 0) -> TensorType:
    lengths = np.array(x.shape[start:end], np.int64)
    return TensorType(lengths.dtype, lengths.shape, lengths)


@operator(since=(15, 19, 21, 23, 24, 25), types=shape_type, facts=OF_NO_DATA)
def Shape(x: Array, *, end: int | None = None, start: int = 0) -> Array:
    """Return the lengths of the axes ``start .. end - 1``, counted and clamped as Python does."""
    return np.array(x.shape[start:end], np.int64)


earlier(Shape, since=(1, 13), without=("end", "start"))


def size_type(x: TensorType) -> TensorType:
    return TensorType(np.dtype(np.int64), (), np.array(x.size, np.int64))


@operator(since=(1, 13, 19, 21, 23, 24, 25), types=size_type, facts=OF_NO_DATA)
def Size(x: Array) -> Array:
    """Return the number of elements."""
    return np.array(x.size, np.int64)


def expand_type(x: TensorType, shape: TensorType) -> TensorType:
    assert shape.value is not None  # it decides the shape
    stated = TensorType(x.dtype, tuple(shape.value.tolist()))
    return x.with_shape(broadcast_shape(x, stated))


@operator(since=(8, 13), types=expand_type, shape_inputs=(1,), facts=Facts(Effect.KEEPS, moves=True, shape_at=1))
def Expand(x: Array, shape: Array) -> Array:
    """Broadcast against ``shape``, both ways."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))


def depth_to_space_type(x: TensorType, *, blocksize: int, mode: str = "DCR") -> TensorType:
    batch, channels, height, width = image_axes(x.shape)
    if mode not in ("DCR", "CRD") or channels % (blocksize * blocksize):
        raise ValueError(
            f"mode must be DCR or CRD, and {channels} channels must fill blocks of {blocksize} x {blocksize}"
        )
    return x.with_shape((batch, channels // blocksize**2, height * blocksize, width * blocksize))


@operator(since=(11, 13, 28), types=depth_to_space_type, facts=Facts(Effect.KEEPS, moves=True))
def DepthToSpace(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Turn channels into blocks of pixels; the outer index is the block (``mode`` DCR) or the channel (CRD)."""
    batch, channels, height, width = x.shape
    b = blocksize
    inner = channels // (b * b)
    if mode == "DCR":
        blocks = x.reshape(batch, b, b, inner, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(batch, inner, b, b, height, width).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(batch, inner, height * b, width * b)


earlier(DepthToSpace, since=1, without=("mode",))


def space_to_depth_type(x: TensorType, *, blocksize: int, mode: str = "DCR") -> TensorType:
    batch, channels, height, width = image_axes(x.shape)
    if mode not in ("DCR", "CRD") or height % blocksize or width % blocksize:
        raise ValueError(
            f"mode must be DCR or CRD, and {height} x {width} must be whole blocks of {blocksize} x {blocksize}"
        )
    return x.with_shape((batch, channels * blocksize**2, height // blocksize, width // blocksize))


@operator(since=28, types=space_to_depth_type, facts=Facts(Effect.KEEPS, moves=True))
def SpaceToDepth(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Turn blocks of pixels into channels: the inverse of DepthToSpace."""
    batch, channels, height, width = x.shape
    b = blocksize
    blocks = x.reshape(batch, channels, height // b, b, width // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.transpose(order).reshape(batch, channels * b * b, height // b, width // b)


earlier(SpaceToDepth, since=(1, 13), without=("mode",))


def image_axes(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return batch, channels, height, width; raise ``ValueError`` unless the tensor has four axes."""
    if len(shape) != 4:
        raise ValueError(f"the input must be (batch, channels, height, width), not {list(shape)}")
    return shape[0], shape[1], shape[2], shape[3]
