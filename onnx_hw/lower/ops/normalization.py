"""Softmax and normalizations: each number in relation to all numbers along some axes."""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle, not_built
from onnx_hw.lower.ops.element_groups import groups_as_pixels
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.shares import PendingShares
from onnx_hw.onnx.graph.model import Node

MAX_EXPONENTIALS = 1 << 12
"""Greatest number of integers of the data of a Softmax: there is a table of their exponentials."""

SINGLE_AXIS_OPSET = 13
"""First version of a Softmax over one axis; earlier ones take all axes from that one on."""


@lowers("Softmax")
def softmax(builder: Builder, node: Node) -> None:
    """Accept quantized data of at most 12 bits; hardware before a product, on the host elsewhere."""
    if not builder.leads_to_product(node.outputs[0]):
        raise not_built(node)
    rank = len(builder.shape(node.inputs[0]))
    single = node.version >= SINGLE_AXIS_OPSET
    axis = int(node.attributes.get("axis", -1 if single else 1)) % rank
    data = data_to_normalize(builder, node)
    value = groups_as_pixels(builder, node, data, (axis,) if single else tuple(range(axis, rank)))
    first, last = builder.materialize(value).range
    require_few_exponentials(node, first, last)
    builder.pending[node.outputs[0]] = PendingShares(value)


def require_few_exponentials(node: Node, first: int, last: int, bits: int = 12) -> None:
    """Raise an obstacle if the table of a Softmax has too many entries.

    Args:
        first, last: range of the integers that the table is made for.
        bits: greatest width of data with a smaller table.
    """
    if last - first >= MAX_EXPONENTIALS:
        raise _not_quantized(node, f"has the integers {first}..{last}", bits)


def data_to_normalize(builder: Builder, node: Node) -> Real:
    """Return the data of a node as numbers with one scale and without bounds.

    Raises:
        Obstacle: they must be quantized.
    """
    real = builder.real(node).unclipped(builder, node)
    if real.is_clipped or not real.has_one_scale or real.slope[0] <= 0 or real.error:
        raise _not_quantized(node, "is clipped" if real.is_clipped else "has a scale or an offset per channel")
    return replace(real, slope=real.slope[:1], offset=real.offset[:1])


def _not_quantized(node: Node, what: str, bits: int = 16) -> Obstacle:
    """Return the obstacle that the data of a node must be quantized; ``what`` is a predicate of its name."""
    name = node.inputs[0]
    return Obstacle(
        "operand-not-quantized",
        f"the data of {node.op_type} must be quantized to at most {bits} bits with one scale; `{name}` {what}",
        f"put QuantizeLinear and DequantizeLinear between `{name}` and `{node.label}`",
        name,
    )
