"""Base class of real numbers on a stream, which are a function of its integers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Self

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder, StreamValue
from onnx_hw.lower.quantizers import Quantizer
from onnx_hw.lower.values.channel_steps import ChannelSteps
from onnx_hw.lower.values.clipped import Clipped
from onnx_hw.onnx.graph.model import Node


@dataclass(frozen=True)
class StreamNumbers(Clipped, StreamValue):
    """Real numbers on a stream.

    Attributes:
        partial: ``where`` omits or repeats positions. No hardware has moved elements yet: that is done with the
            quantized integers, which have one scale.
        rises: True where a greater integer is known never to stand for a smaller number.
    """

    partial: bool = field(default=False, kw_only=True)
    rises: bool = field(default=False, kw_only=True)

    @property
    def is_complete(self) -> bool:
        return not self.partial

    def whole(self, size: int) -> Self:
        return replace(self, shape=(size,), where=np.arange(size), partial=False)

    def scaled(
        self, builder: NetworkBuilder, node: Node, factors: tuple[Fraction, ...], terms: tuple[Fraction, ...]
    ) -> StreamNumbers | None:
        """Build ``factors · numbers + terms``, with one entry or one per channel each.

        None where the result is not linear in integers: a factor is not positive and no product can absorb its sign, or
        the bounds would differ between channels.
        """
        return None

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        return self.requantized(builder, node, grid, name=node.label, output=node.outputs[0])

    def requantized(
        self, builder: NetworkBuilder, node: Node, grid: Grid, *, name: str, output: str = ""
    ) -> IntegerStream:
        """Build integers on a grid; those on the stream are reused if they stand for the same numbers.

        Args:
            node: the quantizer.
            grid: grid with one step, like all data, and with the bounds of these numbers.
            name, output: names of the hardware node and its tensor.
        """
        if self.partial:
            whole = self.whole(builder.tensors[self.tensor].size)
            integers = whole.requantized(builder, node, grid, name=name, output=output)
            return builder.moved(integers, self.where, self.shape, node)
        return self.requantized_whole(builder, node, grid, name=name, output=output)

    def requantized_whole(
        self, builder: NetworkBuilder, node: Node, grid: Grid, *, name: str, output: str
    ) -> IntegerStream:
        """Build integers on a grid like ``requantized``, for numbers that are not partial."""
        raise NotImplementedError

    def quantized_in_steps(self, builder: NetworkBuilder, node: Node, quantizer: Quantizer) -> IntegerStream:
        steps = ChannelSteps.of(builder, self, quantizer)
        if not self.partial:
            return self.stepped(builder, node, steps)
        whole = self.whole(builder.tensors[self.tensor].size)
        return builder.moved(whole.stepped(builder, node, steps), self.where, self.shape, node)

    def stepped(self, builder: NetworkBuilder, node: Node, steps: ChannelSteps) -> IntegerStream:
        """Build the integers of a quantizer's steps, for numbers that are not partial."""
        raise NotImplementedError
