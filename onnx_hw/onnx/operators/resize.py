"""Resize and Upsample: one axis after the other, each a matrix product with the interpolation's weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_hw.onnx.operators.allowance import hold, spend
from onnx_hw.onnx.operators.dtypes import Array, is_integer, widen
from onnx_hw.onnx.operators.facts import Effect, Facts
from onnx_hw.onnx.operators.registry import Floats, Ints, earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, normal_axes

_POLICIES = ("stretch", "not_larger", "not_smaller")
_COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)


@dataclass(frozen=True)
class Interpolation:
    """Interpolation between the elements of an axis; the fields are attributes of Resize."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: bool = False
    extrapolation_value: float = 0.0
    antialias: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("nearest", "linear", "cubic"):
            raise ValueError(f"mode must be nearest, linear or cubic, not {self.mode}")
        if self.coordinates not in _COORDINATES:
            known = ", ".join(_COORDINATES)
            raise ValueError(f"coordinate_transformation_mode must be one of {known}, not {self.coordinates}")
        if self.nearest_mode not in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            raise ValueError(
                f"nearest_mode must be round_prefer_floor, round_prefer_ceil, floor or ceil, not {self.nearest_mode}"
            )


def resize_type(
    x: TensorType,
    roi: TensorType | None = None,
    scales: TensorType | None = None,
    sizes: TensorType | None = None,
    *,
    axes: Ints | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    **_: object,
) -> TensorType:
    del roi
    values = [None if tensor is None else tensor.value for tensor in (scales, sizes)]
    return x.with_shape(extents(x.shape, values[0], values[1], axes, keep_aspect_ratio_policy)[0])


@operator(since=(18, 19), types=resize_type, shape_inputs=(1, 2, 3), facts=Facts(Effect.KEEPS, shape_at=3))
def Resize(
    x: Array,
    roi: Array | None = None,
    scales: Array | None = None,
    sizes: Array | None = None,
    *,
    antialias: int = 0,
    axes: Ints | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Array:
    """Resize all axes, or ``axes``, to ``sizes`` or by ``scales``; ``roi`` is the part for tf_crop_and_resize."""
    how = Interpolation(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        extrapolation_value,
        bool(antialias),
    )
    lengths, factors = extents(x.shape, scales, sizes, axes, keep_aspect_ratio_policy)
    return interpolate(x, lengths, factors, how, roi, axes)


earlier(Resize, since=13, without=("antialias", "axes", "keep_aspect_ratio_policy"))
earlier(Resize, since=11, without=("antialias", "axes", "keep_aspect_ratio_policy"), inputs=(3, 4))


def scaled_type(x: TensorType, scales: TensorType, **_: str) -> TensorType:
    return x.with_shape(extents(x.shape, scales.value, None, None, "stretch")[0])


@operator(name="Upsample", since=(9, 10), types=scaled_type, shape_inputs=(1,), facts=Facts(Effect.KEEPS))
@operator(since=10, types=scaled_type, shape_inputs=(1,))
def Resize_10(x: Array, scales: Array, *, mode: str = "nearest") -> Array:
    """Resize; a source position is the output position divided by the scale, and nearest means the element before."""
    return upsampled(x, scales, mode)


def upsample_7_type(x: TensorType, *, scales: Floats, **_: str) -> TensorType:
    return x.with_shape(extents(x.shape, np.array(scales, np.float32), None, None, "stretch")[0])


@operator(since=7, types=upsample_7_type)
def Upsample_7(x: Array, *, mode: str = "nearest", scales: Floats) -> Array:
    return upsampled(x, np.array(scales, np.float32), mode)


def upsample_1_type(x: TensorType, *, height_scale: float, width_scale: float, **_: str) -> TensorType:
    return upsample_7_type(x, scales=(1.0, 1.0, height_scale, width_scale))


@operator(since=1, types=upsample_1_type)
def Upsample_1(x: Array, *, height_scale: float, mode: str = "nearest", width_scale: float) -> Array:
    """Resize the last two of four axes; ``bilinear`` is today's linear."""
    mode = "linear" if mode == "bilinear" else mode
    return upsampled(x, np.array([1, 1, height_scale, width_scale], np.float32), mode)


def upsampled(x: Array, scales: Array, mode: str) -> Array:
    lengths, factors = extents(x.shape, scales, None, None, "stretch")
    return interpolate(x, lengths, factors, Interpolation(mode, "asymmetric", "floor"), None, None)


def extents(
    shape: tuple[int, ...],
    scales: Array | None,
    sizes: Array | None,
    axes: Ints | None,
    policy: str,
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the length of every axis of the result, and the factor by which it is scaled.

    Raises:
        ValueError: not exactly one of scales and sizes, or not one entry per axis.
    """
    if policy not in _POLICIES:
        raise ValueError(f"keep_aspect_ratio_policy must be one of {', '.join(_POLICIES)}, not {policy}")
    which = range(len(shape)) if axes is None else normal_axes(axes, len(shape))
    by_size = sizes is not None and sizes.size > 0
    if by_size == (scales is not None and scales.size > 0):
        raise ValueError("exactly one of scales and sizes must be given")
    lengths, factors = list(shape), [1.0] * len(shape)
    stated = (sizes if by_size else scales).tolist()  # type: ignore[union-attr]
    if len(stated) != len(which):
        raise ValueError(f"scales or sizes must have {len(which)} entries, one per axis, not {len(stated)}")
    if by_size and policy != "stretch":
        choose = min if policy == "not_larger" else max
        common = choose(size / shape[axis] for axis, size in zip(which, stated, strict=True))
        stated = [math.floor(common * shape[axis] + 0.5) for axis in which]
        for axis, size in zip(which, stated, strict=True):
            lengths[axis], factors[axis] = size, common
        return tuple(lengths), tuple(factors)
    for axis, extent in zip(which, stated, strict=True):
        if by_size:
            lengths[axis], factors[axis] = extent, extent / shape[axis] if shape[axis] else 1.0
        else:
            lengths[axis], factors[axis] = math.floor(shape[axis] * extent), extent
    return tuple(lengths), tuple(factors)


def interpolate(
    x: Array,
    lengths: Sequence[int],
    factors: Sequence[float],
    how: Interpolation,
    roi: Array | None,
    axes: Ints | None,
) -> Array:
    """Interpolate ``x`` to other lengths of its axes."""
    which = list(range(x.ndim)) if axes is None else list(normal_axes(axes, x.ndim))
    cropping = how.coordinates == "tf_crop_and_resize"
    if cropping and (roi is None or roi.size != 2 * len(which)):
        raise ValueError(f"roi must have {2 * len(which)} entries for tf_crop_and_resize")
    y = x if how.mode == "nearest" else (x.astype(np.float64) if is_integer(x.dtype) else widen(x))
    outside = np.zeros((1,) * x.ndim, bool)
    for number, axis in enumerate(which):
        if lengths[axis] == x.shape[axis] and factors[axis] == 1 and not cropping:
            continue
        part = (float(roi[number]), float(roi[number + len(which)])) if cropping and roi is not None else (0.0, 1.0)
        hold((*(lengths[:axis]), *(max(n, m) for n, m in zip(lengths[axis:], x.shape[axis:], strict=True))), x.dtype)
        places = source_positions(x.shape[axis], lengths[axis], factors[axis], how.coordinates, part)
        if how.mode == "nearest":
            y = np.take(y, nearest(places, x.shape[axis], how.nearest_mode), axis=axis)
        else:
            weights = interpolation_weights(places, x.shape[axis], factors[axis], how).astype(y.dtype)
            spend(0, products=y.size * lengths[axis])
            y = np.moveaxis(np.matmul(np.moveaxis(y, axis, -1), weights.T), -1, axis)
        if cropping:
            beyond = (places < 0) | (places > x.shape[axis] - 1)
            outside = outside | beyond.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    if outside.any():
        y = np.where(outside, y.dtype.type(how.extrapolation_value), y)
    if is_integer(x.dtype) and how.mode != "nearest":
        y = np.trunc(y)
    return np.ascontiguousarray(y.astype(x.dtype, copy=False))


def source_positions(length: int, new: int, factor: float, coordinates: str, part: tuple[float, float]) -> Array:
    """Return the position of each of ``new`` elements on the old axis, in float64.

    Formulas: ONNX operator specification of Resize, ``coordinate_transformation_mode``.
    """
    k = np.arange(new, dtype=np.float64)
    exact = factor * length  # the new length before it is rounded
    if coordinates == "asymmetric":
        return k / factor
    if coordinates == "align_corners":
        return k * (length - 1) / (exact - 1) if exact != 1 else np.zeros_like(k)
    if coordinates == "tf_crop_and_resize":
        first, last = part
        if exact == 1:
            return np.full_like(k, (last + first) * (length - 1) / 2)
        return first * (length - 1) + k * (last - first) * (length - 1) / (exact - 1)
    if coordinates == "tf_half_pixel_for_nn":
        return (k + 0.5) / factor
    if coordinates == "pytorch_half_pixel" and exact == 1:
        return np.full_like(k, -0.5)
    shift = length / 2 * (1 - new / exact) if coordinates == "half_pixel_symmetric" else 0.0
    return shift + (k + 0.5) / factor - 0.5


def nearest(places: Array, length: int, mode: str) -> Array:
    """Return the index of the nearest element."""
    rounded = {
        "round_prefer_floor": np.ceil(places - 0.5),
        "round_prefer_ceil": np.floor(places + 0.5),
        "floor": np.floor(places),
        "ceil": np.ceil(places),
    }[mode]
    return np.clip(rounded, 0, length - 1).astype(np.int64)


def interpolation_weights(places: Array, length: int, factor: float, how: Interpolation) -> Array:
    """Return the weight of each old element for each new one: (new, length) float64.

    Elements beyond the ends are taken to equal the last ones, or to count nothing (``exclude_outside``). With
    ``antialias`` the kernel is widened where the axis shrinks.
    """
    narrow = min(factor, 1.0) if how.antialias else 1.0
    reach = 1 if how.mode == "linear" else 2
    start = math.floor(-reach / narrow) + 1
    hold((len(places), max(length, 2 - 2 * start)))
    base = np.ceil(places).astype(np.int64) - 1
    taps = base[:, None] + np.arange(start, 2 - start)
    distance = np.abs(taps - places[:, None]) * narrow
    if how.mode == "linear":
        weights = np.clip(1 - distance, 0, 1)
    else:
        weights = cubic(distance, how.cubic_coeff_a)
    if how.exclude_outside:
        weights = np.where((taps >= 0) & (taps < length), weights, 0)
    if how.exclude_outside or how.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    result = np.zeros((len(places), length))
    np.add.at(result, (np.arange(len(places))[:, None], np.clip(taps, 0, length - 1)), weights)
    return result


def cubic(distance: Array, a: float) -> Array:
    """Evaluate Keys' kernel (1981), of support 2."""
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))
