"""MatMul of two quantized tensors: the weights come with the data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.onnx.model import Node
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.requantize import Requantize
from onnx_hw.quantize.builder import Builder, Obstacle
from onnx_hw.quantize.lower.convolution import dequantized
from onnx_hw.quantize.stream_layout import Layout
from onnx_hw.quantize.values import Real


def product_of_tensors(builder: Builder, node: Node) -> None:
    """Data [..., rows, inputs] times one matrix [inputs, outputs]; a zero point that is not 0 is taken off before.

    (x − z)·(w − v) summed is no function of Σ x·w alone, so the integers themselves are moved.
    """
    left, zero = dequantized(builder, node)
    right, other_zero = dequantized(builder, node, 1)
    *stack, inputs, outputs = right.shape if len(right.shape) > 1 else (*right.shape, 1)
    if prod(stack) != 1:
        raise Obstacle(
            "weights-rank", f"the second of two quantized tensors must be one matrix, not {list(right.shape)}"
        )
    vectors = _without_zero_point(builder, node, builder.rows(left, inputs, node), zero, "left")
    columns = np.arange(inputs * outputs).reshape(inputs, outputs).T.reshape(-1)
    matrix = builder.want(right, Layout((1, outputs, inputs), columns), node)
    matrix = _without_zero_point(builder, node, matrix, other_zero, "right")
    operator = MatMul(builder.tensors[vectors.tensor], builder.tensors[matrix.tensor])
    stream = builder.add(node.label, operator, [vectors.tensor, matrix.tensor], node, output=node.outputs[0])
    shape = builder.shape(node.outputs[0])
    slope = (left.slope[0] * right.slope[0],)
    builder.values[node.outputs[0]] = Real(stream, shape, np.arange(prod(shape)), slope)


def _without_zero_point(builder: Builder, node: Node, value: Real, zero: int, side: str) -> Real:
    """The same numbers on integers of which 0 stands for 0."""
    if zero == 0:
        return value
    tensor = builder.tensors[value.tensor]
    low, high = (bound - zero for bound in tensor.range)
    grid = Grid.over(Int.holding(min(low, 0), max(high, 0))).within(low, high)
    operator = Requantize(tensor, (Fraction(1),), (Fraction(-zero),), grid)
    moved = builder.add(f"{node.label}/{side}", operator, [value.tensor], node)
    return replace(value, tensor=moved, offset=(Fraction(0),))
