"""Maxima or minima of a value, computed on its integers: with a common scale they have the order of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.kernel import Kernel, pool_of
from onnx_hw.lower.network_builder import Bound, IntegerStream, LoweredValue, NetworkBuilder, StreamValue
from onnx_hw.lower.quantizers import Quantizer
from onnx_hw.lower.values.concat import PendingConcat, common_axes
from onnx_hw.lower.values.quantized_by import quantized_by
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.graph.model import Node


@dataclass(frozen=True)
class PendingExtrema(LoweredValue):
    """Maxima or minima of groups of numbers of another value.

    Attributes:
        value: the other value.
        shape: shape of the result.
        of_stream: function from the builder and the quantized ``value`` on a stream to the extrema of its integers.
    """

    value: LoweredValue
    shape: tuple[int, ...]
    of_stream: Callable[[Any, Any], Any] = field(repr=False)

    is_pending: ClassVar[bool] = True

    def streams(self) -> list[StreamValue]:
        return self.value.streams()

    def clip(self, low: Bound, high: Bound) -> PendingExtrema:
        """Return ``min(max(value, low), high)``: clipping commutes with maxima and minima."""
        return replace(self, value=self.value.clip(low, high))

    def quantized(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        integers: IntegerStream = self.of_stream(builder, self.value.quantized(builder, node, grid))
        return integers

    def quantized_in_steps(self, builder: NetworkBuilder, node: Node, quantizer: Quantizer) -> IntegerStream:
        integers: IntegerStream = self.of_stream(builder, quantized_by(builder, node, self.value, quantizer))
        return integers


def extrema_of(
    builder: NetworkBuilder, node: Node, kind: str, parts: tuple[StreamNumbers, ...], shape: tuple[int, ...], name: str
) -> PendingExtrema:
    """Return the pending maximum or minimum, element by element, of values of one shape.

    Their pixels alternate on one stream, as if each pixel were ``len(parts)`` pixels next to each other: a pool
    computes the maximum or minimum of those.

    Args:
        kind: ``max`` or ``min``.
        parts: the values.
        shape: shape of each of them, and of the result.
        name: name of the hardware node.
    """
    axis = common_axes(builder, parts)[-1]
    joined = tuple(size * (len(parts) if k == axis else 1) for k, size in enumerate(shape))

    def extrema(builder: NetworkBuilder, value: StreamValue) -> StreamValue:
        height, width, channels = builder.tensors[value.tensor].shape
        each = channels // len(parts)
        pixels = np.arange(value.where.size).reshape(-1, each)
        side_by_side = replace(value, shape=(1, each, height, width * len(parts)), where=pixels.T.reshape(-1))
        side_by_side, tensor = builder.image(side_by_side, node)
        size = 1, len(parts)
        pool = pool_of(tensor, kind, Kernel(size, size, (0, 0, 0, 0), (1, 1)), 0)
        stream = builder.add(name, pool, [side_by_side.tensor], node, output=node.outputs[0])
        builder.carry_grid(value.tensor, stream)
        first = np.take(value.where.reshape(value.shape), range(shape[axis]), axis).reshape(-1)
        return replace(value, tensor=stream, shape=shape, where=first // channels * each + first % channels)

    return PendingExtrema(PendingConcat(parts, axis, joined), shape, extrema)
