"""Sums, products, joined and padded tensors that another operator reads before they are quantized.

They wait for a quantizer, since rounding them there costs least. Without a quantizer they become numbers on their own
stream, if the steps of their parts have a simple ratio.
"""

from __future__ import annotations

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.data_movement import move_pending
from onnx_hw.lower.ops.registry import Lowering
from onnx_hw.onnx.graph.model import Node


def lower(lowering: Lowering, builder: Builder, node: Node) -> None:
    """Lower a node, also where an input waits for a quantizer.

    An input that the node cannot read while it waits gets a stream. Where that is not possible and the node only moves
    elements, its results wait instead.

    Raises:
        Obstacle, NotFinite: The lowering raises it.
    """
    try:
        lowering(builder, node)
    except Obstacle as obstacle:
        needs, first = obstacle.needs, True
        while _put_on_stream(builder, node, needs):
            first = False
            try:
                lowering(builder, node)
            except Obstacle as another:
                needs = another.needs
            else:
                return
        if not first or not move_pending(builder, node):
            raise obstacle from None  # the first one names the missing quantizer


def _put_on_stream(builder: Builder, node: Node, name: str) -> bool:
    """Put a value that waits for a quantizer on a stream, too; quantizers still read the waiting value.

    Returns:
        Whether the value has a new stream.
    """
    pending = None if name in builder.values else builder.pending.get(name)
    stream = None if pending is None else pending.on_stream(builder, node)
    if stream is not None:
        builder.values[name] = stream
    return stream is not None
