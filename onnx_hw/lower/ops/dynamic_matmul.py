"""MatMul of two quantized tensors: the weights are data, too."""

from __future__ import annotations

from math import prod

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.matmul_operand import dequantized, from_zero
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.matmul import MatMul


def product_of_tensors(builder: Builder, node: Node) -> None:
    """Multiply data [..., rows, inputs] by one matrix [inputs, outputs]; subtract zero points other than 0 before.

    Σ (x − z)·(w − v) is not a function of Σ x·w alone, so the zero points are subtracted from the integers.

    Raises:
        Obstacle: An operand is not quantized, or the second one is not one matrix.
    """
    left = dequantized(builder, node)
    right = dequantized(builder, node, 1)
    *stack, inputs, outputs = right.shape if len(right.shape) > 1 else (*right.shape, 1)
    if prod(stack) != 1:
        raise Obstacle(
            "weights-rank", f"the second of two quantized tensors must be one matrix, not {list(right.shape)}"
        )
    vectors = _without_zero_point(builder, node, builder.rows(left, inputs, node), 0)
    columns = np.arange(inputs * outputs).reshape(inputs, outputs).T.reshape(-1)
    matrix = builder.request_layout(right, Layout((1, outputs, inputs), columns), node)
    matrix = _without_zero_point(builder, node, matrix, 1)
    operator = MatMul(builder.tensors[vectors.tensor], builder.tensors[matrix.tensor])
    stream = builder.add(node.label, operator, [vectors.tensor, matrix.tensor], node, output=node.outputs[0])
    shape = builder.shape(node.outputs[0])
    slope = (vectors.slope[0] * matrix.slope[0],)
    builder.values[node.outputs[0]] = Real(stream, shape, np.arange(prod(shape)), slope)


def _without_zero_point(builder: Builder, node: Node, value: Real, k: int) -> Real:
    """Return the same numbers on integers whose 0 stands for 0."""
    return from_zero(builder, node, value, ("left", "right")[k], k) if value.zero_point != 0 else value
