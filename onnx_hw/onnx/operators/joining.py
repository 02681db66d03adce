"""Operators that join, cut, repeat and frame tensors: Concat, Split, Tile, Pad, CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import Call, Ints, earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, TypeCall, normal_axes, normal_axis, same_dtype


def concat_type(*inputs: TensorType, axis: int = 1) -> TensorType:
    dtype, first = same_dtype(*inputs), inputs[0]
    along = normal_axis(axis, first.ndim)
    for x in inputs[1:]:
        if x.shape[:along] + x.shape[along + 1 :] != first.shape[:along] + first.shape[along + 1 :]:
            raise ValueError(f"shapes must be equal but for axis {along}, not {list(first.shape)} and {list(x.shape)}")
    total = sum(x.shape[along] for x in inputs)
    return TensorType(dtype, (*first.shape[:along], total, *first.shape[along + 1 :]))


@operator(since=(4, 11, 13), types=concat_type, facts=Facts(Effect.JOINS))
def Concat(*inputs: Array, axis: int) -> Array:
    return np.concatenate(inputs, axis)


@operator(since=1, types=concat_type)
def Concat_1(*inputs: Array, axis: int | None = None) -> Array:
    """Join tensors along axis 1, unless another axis is stated."""
    return np.concatenate(inputs, 1 if axis is None else axis)


def split_type(
    x: TensorType, split: TensorType | None = None, *, axis: int = 0, num_outputs: int | None = None, call: TypeCall
) -> tuple[TensorType, ...]:
    lengths = None if split is None or split.value is None else split.value
    return _parts(x, lengths, axis, num_outputs, call.results)


def split_2_type(x: TensorType, *, axis: int = 0, split: Ints | None = None, call: TypeCall) -> tuple[TensorType, ...]:
    return _parts(x, split, axis, None, call.results)


@operator(since=18, types=split_type, shape_inputs=(1,), facts=Facts(Effect.KEEPS, moves=True))
def Split(
    x: Array, split: Array | None = None, *, axis: int = 0, num_outputs: int | None = None, call: Call
) -> tuple[Array, ...]:
    """Cut into parts of these lengths; else equal ones, the last being shorter where they do not divide the axis."""
    return _split(x, part_lengths(x.shape, split, axis, num_outputs, call.results), axis)


earlier(Split, since=13, without=("num_outputs",))


@operator(since=(2, 11), types=split_2_type)
def Split_2(x: Array, *, axis: int = 0, split: Ints | None = None, call: Call) -> tuple[Array, ...]:
    """Cut into parts whose lengths are an attribute."""
    return _split(x, part_lengths(x.shape, split, axis, None, call.results), axis)


def split_1_type(
    x: TensorType,
    lengths: TensorType | None = None,
    *,
    axis: int | None = None,
    split: Ints | None = None,
    call: TypeCall,
) -> tuple[TensorType, ...]:
    part_sizes = split if lengths is None else lengths.value
    return _parts(x, part_sizes, axis or 0, None, call.results)


@operator(since=1, types=split_1_type, shape_inputs=(1,))
def Split_1(
    x: Array, lengths: Array | None = None, *, axis: int | None = None, split: Ints | None = None, call: Call
) -> tuple[Array, ...]:
    """Cut into parts whose lengths are an input or an attribute."""
    part_sizes = split if lengths is None else lengths
    return _split(x, part_lengths(x.shape, part_sizes, axis or 0, None, call.results), axis or 0)


def part_lengths(
    shape: tuple[int, ...], split: Sequence[int] | Array | None, axis: int, num_outputs: int | None, results: int
) -> list[int]:
    """Return the lengths of the parts; raise ``ValueError`` unless they are one per output and add up to the axis."""
    total = shape[normal_axis(axis, len(shape))]
    if split is not None and len(split):
        lengths = [int(length) for length in split]
    elif num_outputs is not None:
        if num_outputs != results:
            raise ValueError(f"num_outputs must be the number of outputs, {results}, not {num_outputs}")
        each = -(-total // num_outputs)
        lengths = [min(each, max(total - each * k, 0)) for k in range(num_outputs)]
    else:
        if total % results:
            raise ValueError(f"an axis of {total} cannot be split into {results} equal parts")
        lengths = [total // results] * results
    if len(lengths) != results or sum(lengths) != total or min(lengths) < 0:
        raise ValueError(f"an axis of {total} must be split into {results} outputs, not {lengths}")
    return lengths


def _split(x: Array, lengths: list[int], axis: int) -> tuple[Array, ...]:
    return tuple(np.split(x, np.cumsum(lengths)[:-1], axis))


def _parts(
    x: TensorType, split: Sequence[int] | Array | None, axis: int, num_outputs: int | None, results: int
) -> tuple[TensorType, ...]:
    along = normal_axis(axis, x.ndim)
    lengths = part_lengths(x.shape, split, axis, num_outputs, results)
    return tuple(x.with_shape((*x.shape[:along], length, *x.shape[along + 1 :])) for length in lengths)


def tile_type(x: TensorType, repeats: TensorType) -> TensorType:
    assert repeats.value is not None  # it decides the shape
    return x.with_shape([a * b for a, b in zip(x.shape, repeats.value.tolist(), strict=True)])


@operator(since=(6, 13), types=tile_type, shape_inputs=(1,), facts=Facts(Effect.KEEPS, moves=True))
def Tile(x: Array, repeats: Array) -> Array:
    return np.tile(x, repeats.tolist())


def tile_1_type(x: TensorType, tiles: TensorType, axis: TensorType) -> TensorType:
    assert tiles.value is not None and axis.value is not None  # they decide the shape
    shape = list(x.shape)
    shape[normal_axis(int(axis.value.reshape(())), x.ndim)] *= int(tiles.value.reshape(()))
    return x.with_shape(shape)


@operator(since=1, types=tile_1_type, shape_inputs=(1, 2))
def Tile_1(x: Array, tiles: Array, axis: Array) -> Array:
    """Repeat along one axis."""
    repeats = [1] * x.ndim
    repeats[int(axis.reshape(()))] = int(tiles.reshape(()))
    return np.tile(x, repeats)


def pad_type(
    x: TensorType,
    pads: TensorType,
    value: TensorType | None = None,
    axes: TensorType | None = None,
    *,
    mode: str = "constant",
) -> TensorType:
    assert pads.value is not None  # it decides the shape
    same_dtype(x, value)
    return x.with_shape(padded_shape(x.shape, pads.value, None if axes is None else axes.value, mode))


@operator(since=(18, 19, 21, 23, 24, 25), types=pad_type, shape_inputs=(1, 3), facts=Facts(Effect.KEEPS))
def Pad(
    x: Array, pads: Array, value: Array | None = None, axes: Array | None = None, *, mode: str = "constant"
) -> Array:
    """Pad the axes; negative padding cuts off."""
    return pad(x, pads, value, axes, mode)


@operator(since=(11, 13), types=pad_type, shape_inputs=(1,))
def Pad_11(x: Array, pads: Array, value: Array | None = None, *, mode: str = "constant") -> Array:
    """Pad all axes."""
    return pad(x, pads, value, None, mode)


def pad_2_type(x: TensorType, *, mode: str = "constant", pads: Ints, **_: float) -> TensorType:
    return x.with_shape(padded_shape(x.shape, pads, None, mode))


@operator(since=2, types=pad_2_type)
def Pad_2(x: Array, *, mode: str = "constant", pads: Ints, value: float = 0.0) -> Array:
    """Pad all axes; everything is an attribute."""
    return pad(x, pads, np.array(value, x.dtype), None, mode)


def pad_1_type(x: TensorType, *, mode: str = "constant", paddings: Ints, **_: float) -> TensorType:
    return x.with_shape(padded_shape(x.shape, paddings, None, mode))


@operator(since=1, types=pad_1_type)
def Pad_1(x: Array, *, mode: str = "constant", paddings: Ints, value: float = 0.0) -> Array:
    return pad(x, paddings, np.array(value, x.dtype), None, mode)


def axis_pads(rank: int, pads: Sequence[int] | Array, axes: Sequence[int] | Array | None) -> list[tuple[int, int]]:
    """Return the padding before and after every axis; raise ``ValueError`` unless each axis has two pads."""
    padded = list(range(rank)) if axes is None else list(normal_axes(axes, rank))  # type: ignore[arg-type]
    if len(pads) != 2 * len(padded):
        raise ValueError(f"pads must have 2 entries for each of {len(padded)} axes, not {len(pads)}")
    both = [(0, 0)] * rank
    for number, axis in enumerate(padded):
        both[axis] = int(pads[number]), int(pads[number + len(padded)])
    return both


def padded_shape(
    shape: tuple[int, ...],
    pads: Sequence[int] | Array,
    axes: Sequence[int] | Array | None,
    mode: str,
) -> list[int]:
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise ValueError(f"mode must be constant, reflect, edge or wrap, not {mode}")
    result = [n + before + after for n, (before, after) in zip(shape, axis_pads(len(shape), pads, axes), strict=True)]
    if min(result, default=0) < 0:
        raise ValueError(f"negative padding must not cut off more than {list(shape)} has; the shape would be {result}")
    return result


def pad(
    x: Array, pads: Sequence[int] | Array, value: Array | None, axes: Sequence[int] | Array | None, mode: str
) -> Array:
    """Frame ``x`` by a value or by what lies inside; negative padding cuts off first."""
    shape = padded_shape(x.shape, pads, axes, mode)
    both = axis_pads(x.ndim, pads, axes)
    kept = tuple(slice(max(-before, 0), n - max(-after, 0)) for n, (before, after) in zip(x.shape, both, strict=True))
    x = x[kept]
    frame = [(max(before, 0), max(after, 0)) for before, after in both]
    if mode != "constant":
        return np.pad(x, frame, mode=mode)  # type: ignore[call-overload]
    y = np.full(shape, x.dtype.type(0) if value is None else value.reshape(()), x.dtype)
    y[tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, frame, strict=True))] = x
    return y


def center_crop_pad_type(x: TensorType, shape: TensorType, *, axes: Ints | None = None) -> TensorType:
    assert shape.value is not None  # it decides the shape
    return x.with_shape(centered_shape(x.shape, shape.value, axes))


@operator(since=18, types=center_crop_pad_type, shape_inputs=(1,), facts=Facts(Effect.KEEPS))
def CenterCropPad(x: Array, shape: Array, *, axes: Ints | None = None) -> Array:
    """Cut or frame with zeros to these lengths, equally on both sides; an odd element is taken at the end."""
    lengths = centered_shape(x.shape, shape, axes)
    y = np.zeros(lengths, x.dtype)
    source, target = [], []
    for old, new in zip(x.shape, lengths, strict=True):
        cut, frame = max(old - new, 0) // 2, max(new - old, 0) // 2
        source.append(slice(cut, cut + min(old, new)))
        target.append(slice(frame, frame + min(old, new)))
    y[tuple(target)] = x[tuple(source)]
    return y


def centered_shape(shape: tuple[int, ...], lengths: Array, axes: Ints | None) -> tuple[int, ...]:
    result = list(shape)
    for axis, length in zip(normal_axes(axes or range(len(shape)), len(shape)), lengths.tolist(), strict=True):
        result[axis] = length
    return tuple(result)
