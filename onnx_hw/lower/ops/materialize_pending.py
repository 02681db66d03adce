"""Sums, products, joined and padded tensors that nothing quantizes before another operator reads them.

They wait for a quantizer, since what rounds them at once costs least. Where there is none they are numbers on a stream
of their own, if their parts' steps have a simple ratio.
"""

from __future__ import annotations

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.data_movement import moved_once_quantized
from onnx_hw.lower.ops.registry import Lowering
from onnx_hw.onnx.graph.model import Node


def lower(lowering: Lowering, builder: Builder, node: Node) -> None:
    """Lower a node; what it cannot read while it waits for a quantizer gets a stream, or else waits on in new places.

    Raises:
        Obstacle, NotFinite: as the lowering does.
    """
    try:
        lowering(builder, node)
    except Obstacle as obstacle:
        if _gets_a_stream(builder, node, obstacle.needs):
            try:
                lowering(builder, node)
            except Obstacle:  # a quantizer is what was missing
                raise obstacle from None
        elif not moved_once_quantized(builder, node):
            raise


def _gets_a_stream(builder: Builder, node: Node, name: str) -> bool:
    """Whether a value that waits has now a stream, too; those who quantize it take it as it waits."""
    pending = None if name in builder.values else builder.pending.get(name)
    stream = None if pending is None else pending.on_stream(builder, node)
    if stream is not None:
        builder.values[name] = stream
    return stream is not None
