"""Concat: tensors one behind the other; where their scales differ, each is requantized to that of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from onnx_hw.integers import Int
from onnx_hw.onnx.model import Node
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantize.builder import Builder, Hardware, Obstacle, T
from onnx_hw.quantize.lower.registry import lowers
from onnx_hw.quantize.stream_layout import axes_on_stream, default_layout, layout_of_axes
from onnx_hw.quantize.values import Integers, Joined, Real


@lowers("Concat")
def concat(builder: Builder, node: Node) -> None:
    """of tensors in hardware"""
    parts = [builder.data(node, k) for k in range(len(node.inputs))]
    axis = int(node.attributes.get("axis", 1)) % len(parts[0].shape)
    shape = builder.shape(node.outputs[0])
    if len(parts) == 1:
        builder.values[node.outputs[0]] = parts[0]
    elif all(isinstance(part, Integers) for part in parts):
        builder.values[node.outputs[0]] = _joined(builder, node, parts, axis, shape)
    else:
        reals = [builder.real(node, k) for k in range(len(parts))]
        if _alike(reals):
            builder.values[node.outputs[0]] = _joined(builder, node, reals, axis, shape)
        else:
            builder.pending[node.outputs[0]] = Joined(tuple(reals), axis, shape)


def quantize_joined(
    builder: Builder, node: Node, value: Joined, step: Fraction, zero_point: int, bounds: tuple[int, int], dtype: Int
) -> Integers:
    """Each part's integers in the scale of the whole, one behind the other."""
    low, high = bounds
    parts = []
    for number, part in enumerate(value.parts):
        if not part.clipped and set(part.slope) == {step} and set(part.offset) == {-step * zero_point}:
            tensor = builder.settled(part)
            if tensor.dtype == dtype and low <= tensor.range[0] and tensor.range[1] <= high:
                parts.append(Integers(part.tensor, part.shape, part.where))
                continue
        part_low, part_high = (
            otherwise if bound is None else _rounded(bound, step, zero_point, bounds)
            for bound, otherwise in ((part.low, low), (part.high, high))
        )
        operator = Requantize(
            builder.settled(part),
            tuple(slope / step for slope in part.slope),
            tuple(offset / step for offset in part.offset),
            part_low,
            part_high,
            zero_point,
            dtype,
        )
        tensor_name = builder.add(f"{node.label}/part{number}", operator, [part.tensor], node)
        parts.append(Integers(tensor_name, part.shape, builder.positions(part)))
    return _joined(builder, node, parts, value.axis, value.shape)


def _rounded(bound: Fraction, step: Fraction, zero_point: int, bounds: tuple[int, int]) -> int:
    return min(max(round(bound / step) + zero_point, bounds[0]), bounds[1])


def _alike(parts: list[Real]) -> bool:
    """Whether the same integer stands for the same number in all of them."""
    meanings = {(part.slope, part.offset, part.low, part.high) for part in parts}
    return len(meanings) == 1 and len(parts[0].slope) == 1 and len(parts[0].offset) == 1


def _joined(builder: Builder, node: Node, parts: Sequence[T], axis: int, shape: tuple[int, ...]) -> T:
    """The core; all parts are laid out like the first one whose order is fixed."""
    axes = _common_axes(builder, parts)
    layouts = [layout_of_axes(part.shape, axes) for part in parts]
    whole = layout_of_axes(shape, axes)
    place = axes.index(axis)
    stream_axis = max(0, place - len(axes) + 3)
    if stream_axis == 0 and any(shape[a] > 1 for a in axes[:place]):
        raise Obstacle("concat-axis", f"a Concat of {list(shape)} along axis {axis} is not built")
    laid = [builder.want(part, layout, node) for part, layout in zip(parts, layouts, strict=True)]
    operator = Concat(tuple(builder.tensors[part.tensor] for part in laid), stream_axis)
    tensor = builder.add(node.label, operator, [part.tensor for part in laid], node)
    return replace(laid[0], tensor=tensor, shape=shape, where=whole.where)


def _common_axes(builder: Builder, parts: Sequence[Hardware]) -> tuple[int, ...]:
    """The axes of all parts, outermost first, as they are on the stream of the first part that has a fixed order."""
    for part in parts:
        if builder.stream_order(part) is not None:
            return axes_on_stream(builder.positions(part).reshape(part.shape))
    first = parts[0]
    return axes_on_stream(default_layout(first.shape).where.reshape(first.shape))
