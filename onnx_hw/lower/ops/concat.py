"""Concat: tensors one behind the other; where their scales differ, each is requantized to that of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.builder import Builder, Hardware, Obstacle, T
from onnx_hw.lower.layout.stream_layout import axes_on_stream, default_layout, layout_of_axes
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.ops.requantize import clipped, quantize_tensor, unclipped
from onnx_hw.lower.values import FunctionValue, IntegerStream, Joined, Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.concat import Concat


@lowers("Concat")
def concat(builder: Builder, node: Node) -> None:
    """of tensors in hardware"""
    filled = [k for k, name in enumerate(node.inputs) if 0 not in builder.shape(name)]
    parts = [builder.elements(node, k) for k in filled]
    axis = int(node.attributes.get("axis", 1)) % len(parts[0].shape)
    shape = builder.shape(node.outputs[0])
    if len(parts) == 1:
        builder.values[node.outputs[0]] = parts[0]
    elif all(isinstance(part, IntegerStream) for part in parts) or _alike(parts):
        builder.values[node.outputs[0]] = _joined(builder, node, parts, axis, shape)
    else:
        reals = [
            p if isinstance(p, FunctionValue) else builder.real(node, k) for k, p in zip(filled, parts, strict=True)
        ]
        builder.pending[node.outputs[0]] = Joined(tuple(reals), axis, shape)


def quantize_joined(builder: Builder, node: Node, value: Joined, grid: Grid) -> IntegerStream:
    """Each part's integers on the grid of the whole, one behind the other."""
    parts = []
    for number, part in enumerate(value.parts):
        name = f"{node.label}/part{number}"
        parts.append(quantize_tensor(builder, node, part, clipped(part, grid), name=name))
    return _joined(builder, node, parts, value.axis, value.shape)


def joined_in_one_tensor(builder: Builder, node: Node, value: Joined) -> Real | None:
    """Real numbers with a scale per channel; None where parts have bounds, or channels those of several parts."""
    parts = [unclipped(builder, node, part) for part in value.parts if isinstance(part, Real) and not part.partial]
    if len(parts) < len(value.parts) or any(part.clipped or len(part.shape) != 4 for part in parts) or value.axis != 1:
        return None
    images = [builder.image(part, node)[0] for part in parts]
    joined = _joined(builder, node, images, value.axis, value.shape)
    if builder.tensors[joined.tensor].channels != value.shape[1]:
        return None
    slope: list[Fraction] = []
    offset: list[Fraction] = []
    for part in images:
        for numbers, all_numbers in ((part.slope, slope), (part.offset, offset)):
            all_numbers += numbers * (part.shape[1] if len(numbers) == 1 else 1)
    return replace(joined, slope=tuple(slope), offset=tuple(offset), low=value.low, high=value.high)


def _alike(parts: Sequence[Hardware]) -> bool:
    """Whether the same integer stands for the same number in all of them."""
    meanings = {(part.slope, part.offset, part.low, part.high) for part in parts if isinstance(part, Real)}
    if len(meanings) != 1 or not all(isinstance(part, Real) for part in parts):
        return False
    ((slope, offset, _, _),) = meanings
    return len(slope) == len(offset) == 1


def _joined(builder: Builder, node: Node, parts: Sequence[T], axis: int, shape: tuple[int, ...]) -> T:
    """The core; all parts are laid out like the first one whose order is fixed."""
    axes = common_axes(builder, parts)
    layouts = [layout_of_axes(part.shape, axes) for part in parts]
    whole = layout_of_axes(shape, axes)
    place = axes.index(axis)
    stream_axis = max(0, place - len(axes) + 3)
    if stream_axis == 0 and any(shape[a] > 1 for a in axes[:place]):
        raise Obstacle("concat-axis", f"a Concat of {list(shape)} along axis {axis} is not built")
    laid = [builder.want(part, layout, node) for part, layout in zip(parts, layouts, strict=True)]
    operator = Concat(tuple(builder.tensors[part.tensor] for part in laid), stream_axis)
    tensor = builder.add(node.label, operator, [part.tensor for part in laid], node)
    joined = replace(laid[0], tensor=tensor, shape=shape, where=whole.where)
    if isinstance(joined, Real):
        return replace(joined, error=max(part.error for part in laid if isinstance(part, Real)))
    return joined


def common_axes(builder: Builder, parts: Sequence[Hardware]) -> tuple[int, ...]:
    """The axes of all parts, outermost first, as they are on the stream of the first part that has a fixed order."""
    for part in parts:
        if builder.stream_order(part) is not None:
            return axes_on_stream(builder.positions(part).reshape(part.shape))
    first = parts[0]
    return axes_on_stream(default_layout(first.shape).where.reshape(first.shape))
