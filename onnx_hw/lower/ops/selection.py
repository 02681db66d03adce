"""Comparisons and choices, which compositions of Where and of comparisons are made of."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.rationals import commensurable
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.ops.binary import sum_of
from onnx_hw.lower.ops.constants import is_constant
from onnx_hw.lower.ops.lookup import function_of, share_integers
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.select import PendingSelect
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.registry import INTERNAL


@lowers("Exceeds", domains=[INTERNAL])
def exceeds(builder: Builder, node: Node) -> None:
    """Compare quantized tensors, or one of them with a constant."""
    data = [name for name in node.inputs if not is_constant(builder, name)]
    if len(data) < 2 or share_integers([builder.values.get(name) for name in data]):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    # a − b = n·g with the common divisor g of all steps: a > b where n ≥ 1, and a ≥ b where n + 1 ≥ 1
    difference = sum_of(builder, replace(node, op_type="Sub"))
    (p,), (q,) = difference.a.slope, difference.b.slope
    offset = difference.a.offset[0] - difference.b.offset[0]
    step, _ = commensurable(tuple(number for number in (p, q, abs(offset)) if number))
    if node.attributes.get("or_equal", 0):
        difference = replace(difference, a=replace(difference.a, offset=(difference.a.offset[0] + step,)))
    flag = Grid.over(Int(1, signed=False), step, 0)
    integers = difference.quantized(builder, node, flag)
    builder.values[node.outputs[0]] = Real(integers.tensor, integers.shape, integers.where, (Fraction(1),))


@lowers("Select", domains=[INTERNAL])
def select(builder: Builder, node: Node) -> None:
    """Choose between quantized tensors."""
    shape = builder.shape(node.outputs[0])
    parts = []
    for k in range(3):
        value = builder.stream_numbers(node, k)
        if value.shape != shape:
            elements = np.arange(value.where.size).reshape(value.shape)
            value = builder.placed(value, np.broadcast_to(elements, shape), node)
        if value.partial or StreamNumbers.cast(value) is None:
            raise builder.obstacle(node, k)
        parts.append(value)
    builder.pending[node.outputs[0]] = PendingSelect(*parts)
