"""Sums, products, joined and padded tensors that nothing quantizes before another operator reads them.

They wait for a quantizer, since what rounds them at once costs least. Where there is none they are numbers on a stream
of their own, if their parts' steps have a simple ratio.
"""

from __future__ import annotations

from onnx_hw.lower.builder import Builder, Obstacle
from onnx_hw.lower.ops.binary import in_one_tensor
from onnx_hw.lower.ops.concat import joined_in_one_tensor
from onnx_hw.lower.ops.data_movement import moved_once_quantized
from onnx_hw.lower.ops.registry import Lowering
from onnx_hw.lower.ops.requantize import counted_from_zero
from onnx_hw.lower.values import Joined, PendingProduct, PendingSum, Real, Surrounded
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
    waiting = None if name in builder.values else builder.pending.get(name)
    made: object
    match waiting:
        case PendingSum() | PendingProduct():
            made = in_one_tensor(builder, node, waiting)
        case Joined():
            made = joined_in_one_tensor(builder, node, waiting)
        case Surrounded(value=Real() as inside, fill=0) if inside.zero is not None:
            image = counted_from_zero(builder, node, inside, f"{node.label}/from_zero")
            made = image and builder.moved(image, waiting.origin.reshape(-1), waiting.shape, node)
        case _:
            return False
    if isinstance(made, Real):
        builder.values[name] = made
    return isinstance(made, Real)
