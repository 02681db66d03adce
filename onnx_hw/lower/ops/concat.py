"""Concat of tensors along an axis; where their scales differ, each one is requantized to the scale of the result."""

from __future__ import annotations

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.concat import PendingConcat, concatenated
from onnx_hw.onnx.graph.model import Node


@lowers("Concat")
def concat(builder: Builder, node: Node) -> None:
    """Accept tensors that are in hardware, and constants before a product."""
    nonempty = [k for k, name in enumerate(node.inputs) if 0 not in builder.shape(name)]
    parts = [builder.elements(node, k) for k in nonempty]
    axis = int(node.attributes.get("axis", 1)) % len(parts[0].shape)
    shape, scales = builder.shape(node.outputs[0]), {part.scale_key for part in parts}
    if len(parts) == 1:
        builder.values[node.outputs[0]] = parts[0]
    elif len(scales) == 1 and None not in scales:
        builder.values[node.outputs[0]] = concatenated(builder, node, parts, axis, shape)
    else:
        numbers = tuple(builder.stream_numbers(node, k) for k in nonempty)
        builder.pending[node.outputs[0]] = PendingConcat(numbers, axis, shape)
