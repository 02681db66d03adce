"""Concatenation of tensors with a scale each: every part is quantized to the scale of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.layout.stream_layout import axes_on_stream, default_layout, layout_of_axes
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder, StreamValue, T
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.values.clipped import Clipped
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.concat import Concat


@dataclass(frozen=True)
class PendingConcat(Clipped):
    """Concatenation of real numbers along an axis of their ONNX shapes; ``shape`` is that of the whole."""

    parts: tuple[StreamNumbers, ...]
    axis: int
    shape: tuple[int, ...]

    is_pending: ClassVar[bool] = True

    def streams(self) -> list[StreamValue]:
        return list(self.parts)

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        parts = []
        for number, part in enumerate(self.parts):
            name = f"{node.label}/part{number}"
            parts.append(part.requantized(builder, node, part.within_bounds(grid), name=name))
        return concatenated(builder, node, parts, self.axis, self.shape)

    def on_stream(self, builder: NetworkBuilder, node: Node) -> Real | None:
        """Build real numbers with a scale per channel.

        None where a part has bounds or is not a complete image of linear numbers, or the parts are not concatenated
        along the channels.
        """
        reals = [part for part in self.parts if isinstance(part, Real) and part.is_complete]
        parts = [part.unclipped(builder, node) for part in reals]
        if len(parts) < len(self.parts) or any(part.is_clipped or len(part.shape) != 4 for part in parts):
            return None
        if self.axis != 1:
            return None
        images = [builder.image(part, node)[0] for part in parts]
        whole = concatenated(builder, node, images, self.axis, self.shape)
        if builder.tensors[whole.tensor].channels != self.shape[1]:
            return None
        slope: list[Fraction] = []
        offset: list[Fraction] = []
        for part in images:
            for numbers, all_numbers in ((part.slope, slope), (part.offset, offset)):
                all_numbers += numbers * (part.shape[1] if len(numbers) == 1 else 1)
        return replace(whole, slope=tuple(slope), offset=tuple(offset), low=self.low, high=self.high)


def concatenated(builder: NetworkBuilder, node: Node, parts: Sequence[T], axis: int, shape: tuple[int, ...]) -> T:
    """Build the concatenation of values with one scale; all get the order of the first one whose order is fixed.

    Args:
        axis: axis of their ONNX shapes.
        shape: shape of the whole.

    Raises:
        Obstacle: the axis is not an axis of the stream.
    """
    axes = common_axes(builder, parts)
    layouts = [layout_of_axes(part.shape, axes) for part in parts]
    whole = layout_of_axes(shape, axes)
    position = axes.index(axis)
    stream_axis = max(0, position - len(axes) + 3)
    if stream_axis == 0 and any(shape[a] > 1 for a in axes[:position]):
        raise Obstacle("concat-axis", f"a Concat of {list(shape)} along axis {axis} is not built")
    laid_out = [builder.request_layout(part, layout, node) for part, layout in zip(parts, layouts, strict=True)]
    operator = Concat(tuple(builder.tensors[part.tensor] for part in laid_out), stream_axis)
    tensor = builder.add(node.label, operator, [part.tensor for part in laid_out], node)
    return laid_out[0].concatenated_as(tensor, shape, whole.where, laid_out)


def common_axes(builder: NetworkBuilder, parts: Sequence[StreamValue]) -> tuple[int, ...]:
    """Return the axes of all parts, outermost first, as on the stream of the first part that has a fixed order."""
    for part in parts:
        if builder.stream_order(part) is not None:
            return axes_on_stream(builder.positions(part).reshape(part.shape))
    first = parts[0]
    return axes_on_stream(default_layout(first.shape).where.reshape(first.shape))
