"""Max and Min of several tensors: each is quantized to the result's scale, where integers compare like numbers."""

from __future__ import annotations

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.lookup import function_of, share_integers
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.extrema import extrema_of
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.graph.model import Node


@lowers("Max", "Min")
def extremum(builder: Builder, node: Node) -> None:
    """Accept quantized tensors, or one of them and constants with at most one value per channel (an exact table)."""
    tensors = [k for k, name in enumerate(node.inputs) if name in builder.values or name in builder.pending]
    if len(tensors) < 2 or share_integers([builder.values.get(node.inputs[k]) for k in tensors]):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    if len(tensors) < len(node.inputs):
        message = f"{node.op_type} of several tensors and a constant must be two nodes: one node has no hardware"
        raise Obstacle("two-tensors", message)
    shape = builder.shape(node.outputs[0])
    parts = tuple(_part(builder, node, k, shape) for k in tensors)
    builder.pending[node.outputs[0]] = extrema_of(builder, node, node.op_type.lower(), parts, shape, node.label)


def _part(builder: Builder, node: Node, k: int, shape: tuple[int, ...]) -> StreamNumbers:
    """Return an input, broadcast to the shape of the result; raise ``Obstacle`` unless it is quantized."""
    value = builder.stream_numbers(node, k)
    if value.shape == shape:
        return value
    elements = np.arange(value.where.size).reshape(value.shape)
    value = builder.placed(value, np.broadcast_to(elements, shape), node)
    if value.partial:
        raise builder.obstacle(node, k)
    return value
