"""ArgMax and ArgMin: the index of the channel with the extreme, which does not depend on scale and offset."""

from __future__ import annotations

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import axes_on_stream, default_layout, layout_of_axes
from onnx_hw.lower.network_builder import IntegerStream
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.argmax import ArgMax


@lowers("ArgMax", "ArgMin")
def arg_max(builder: Builder, node: Node) -> None:
    """Accept one axis of quantized data with one scale."""
    value = builder.data(node)
    if value.is_clipped or not value.has_one_scale:
        raise Obstacle(
            "not-quantized",
            f"the data `{node.inputs[0]}` of {node.op_type} must be quantized with one scale",
            f"put QuantizeLinear and DequantizeLinear before `{node.label}`",
            node.inputs[0],
        )
    axis = int(node.attributes.get("axis", 0)) % len(value.shape)
    is_fixed = builder.stream_order(value) is not None
    positions = builder.positions(value) if is_fixed else default_layout(value.shape).where
    other_axes = tuple(a for a in axes_on_stream(positions.reshape(value.shape)) if a != axis)
    value = builder.request_layout(value, layout_of_axes(value.shape, (*other_axes, axis)), node)
    operator = ArgMax(
        builder.tensors[value.tensor],
        largest=node.op_type == "ArgMax",
        last=bool(node.attributes.get("select_last_index", 0)),
    )
    stream = builder.add(node.label, operator, [value.tensor], node, output=node.outputs[0])
    kept = tuple(1 if a == axis else n for a, n in enumerate(value.shape))
    where = layout_of_axes(kept, (*other_axes, axis)).where
    builder.values[node.outputs[0]] = IntegerStream(stream, builder.shape(node.outputs[0]), np.asarray(where))
