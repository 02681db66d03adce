"""Choice between two tensors by a third one: exact, on the integers of the result."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.network_builder import IntegerStream, NetworkBuilder, StreamValue
from onnx_hw.lower.values.clipped import Clipped
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.add import Add
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.requantize import Requantize


@dataclass(frozen=True)
class PendingSelect(Clipped):
    """Real numbers ``a`` where a condition is 1, and ``b`` where it is 0, all of one shape.

    With c, a and b as integers of 0..1 and of the quantizer's grid, that is b + c·(a − b).

    Attributes:
        condition: numbers 0 and 1, or others, of which those above 1/2 count as 1.
        a, b: numbers to choose from.
    """

    condition: StreamNumbers
    a: StreamNumbers
    b: StreamNumbers

    is_pending: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.a.shape

    def streams(self) -> list[StreamValue]:
        return [self.condition, self.a, self.b]

    def quantized_within(self, builder: NetworkBuilder, node: Node, grid: Grid) -> IntegerStream:
        name = node.label
        flag = Int(1, signed=False)
        condition = self.condition.requantized(builder, node, Grid.over(flag, 1, 0), name=f"{name}/condition")
        numbers = {"first": self.a, "second": self.b}
        a, b = (
            part.requantized(builder, node, part.within_bounds(grid), name=f"{name}/{which}")
            for which, part in numbers.items()
        )
        order = builder.stream_order(a)
        if order is None:
            builder.materialize(a)
            order = builder.stream_order(a)
        assert order is not None
        layout = Layout(builder.tensors[a.tensor].shape, order)
        b, condition = (builder.request_layout(value, layout, node) for value in (b, condition))
        tensors = builder.tensors
        difference = Add(tensors[a.tensor], tensors[b.tensor], (1, -1))
        apart = builder.add(f"{name}/difference", difference, [a.tensor, b.tensor], node)
        product = Multiply(tensors[condition.tensor], tensors[apart])
        share = builder.add(f"{name}/share", product, [condition.tensor, apart], node)
        total = builder.add(f"{name}/sum", Add(tensors[b.tensor], tensors[share]), [b.tensor, share], node)
        same = Requantize(
            tensors[total], (Fraction(1),), (Fraction(0),), Grid.over(grid.dtype).within(grid.low, grid.high)
        )
        tensor = builder.add(name, same, [total], node, output=node.outputs[0])
        return IntegerStream(tensor, self.shape, builder.positions(a))
