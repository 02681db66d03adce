"""Softmax over the places that a constant mask shows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.obstacle import not_built
from onnx_hw.lower.ops.element_groups import groups_as_pixels
from onnx_hw.lower.ops.normalization import data_to_normalize, require_few_exponentials
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.shares import PendingShares
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.registry import INTERNAL
from onnx_hw.ops.requantize import Requantize


@lowers("MaskedSoftmax", domains=[INTERNAL])
def masked_softmax(builder: Builder, node: Node) -> None:
    """Put an integer that is less than all others into hidden places: so far from the greatest that its share is 0."""
    if not builder.leads_to_product(node.outputs[0]):
        raise not_built(node)
    shown = builder.constant(node.inputs[1])
    assert shown is not None
    data = data_to_normalize(builder, node)
    value = groups_as_pixels(builder, node, data, (int(node.attributes["axis"]) % len(data.shape),))
    first, last = builder.materialize(value).range
    reach = last - first
    hidden = first - reach - 1
    require_few_exponentials(node, hidden, last, 11)
    value = _widened(builder, node, value, Int.holding(hidden, max(last, 0)))
    places = np.arange(value.where.size)
    origin = np.where(np.broadcast_to(shown, value.shape).reshape(-1), places, -1)
    order = builder.stream_order(value)
    assert order is not None
    layout = Layout(builder.tensors[value.tensor].shape, order)
    value = builder.moved(value, origin, value.shape, node, layout, hidden)
    builder.pending[node.outputs[0]] = PendingShares(value, reach)


def _widened(builder: Builder, node: Node, value: Real, dtype: Int) -> Real:
    """Return the same integers in a wider type."""
    operand = builder.tensors[value.tensor]
    grid = Grid.over(dtype).within(*operand.range)
    operator = Requantize(operand, (Fraction(1),), (Fraction(0),), grid)
    stream = builder.add(f"{node.label}/widened", operator, [value.tensor], node)
    return replace(value, tensor=stream, where=builder.positions(value))
