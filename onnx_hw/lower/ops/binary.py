"""Add, Sub, Mul and Div of two tensors, each with its own scale; they become hardware when the result is quantized."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.quantized_add import MAX_OPERAND_VALUES
from onnx_hw.exact.requantization import LARGEST_TABLE
from onnx_hw.exact.wide_quantized_add import MAX_WIDE_OPERAND_VALUES
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.obstacle import Obstacle, not_built
from onnx_hw.lower.values.function import FunctionValue
from onnx_hw.lower.values.product import PendingProduct
from onnx_hw.lower.values.quotient import PendingQuotient
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.sum import PendingSum
from onnx_hw.onnx.evaluate.macs import is_product
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.ops.rearrange import Rearrange

MAX_FACTOR_BITS = 16
"""Maximum width of an operand of a product of two tensors, in bits."""


def sum_of(builder: Builder, node: Node) -> PendingSum:
    """Return the sum or difference of a node's inputs, which waits for a quantizer.

    Raises:
        Obstacle: An operand is not quantized, or has too many bits.
    """
    a, b = _broadcast_in_one_order(builder, node, *(_operand(builder, node, k) for k in range(2)))
    for k, real in enumerate((a, b)):
        first, last = builder.tensors[real.tensor].range
        if node.outputs[0] in builder.exact or builder.exact.intersection(node.inputs):
            continue  # the sum is on a stream, or is made of operands that are
        is_quantized = is_quantized_in_model(builder, real.tensor)
        if last - first >= (MAX_WIDE_OPERAND_VALUES if is_quantized else MAX_OPERAND_VALUES):
            raise _not_quantized(node, k, f"has the integers {first}..{last}", is_quantized)
    return PendingSum(a, b, -1 if node.op_type == "Sub" else 1)


def product_of(builder: Builder, node: Node) -> PendingProduct:
    """Return the product of a node's inputs, which waits for a quantizer.

    Raises:
        Obstacle: An operand is not quantized, has too many bits, or no integer that stands for 0.
    """
    a, b = _broadcast_in_one_order(builder, node, *(_operand(builder, node, k) for k in range(2)))
    for k, real in enumerate((a, b)):
        if real.zero_point is None or builder.tensors[real.tensor].dtype.bits > MAX_FACTOR_BITS:
            raise _not_quantized(node, k, f"is {builder.tensors[real.tensor].dtype!r} or has no zero point")
    return PendingProduct(a, b)


def quotient_of(builder: Builder, node: Node) -> PendingQuotient:
    """Return the quotient of a node's inputs, which waits for a quantizer.

    Raises:
        Obstacle: An operand is not quantized, has too many bits, or no integer that stands for 0; or the host computes
            the quotient.
    """
    in_products = any(is_product(other) or facts_of(other).effect is Effect.SUMS for other in builder.graph.nodes)
    if in_products and not builder.leads_to_product(node.outputs[0]):
        raise not_built(node)
    product = product_of(builder, node)
    return PendingQuotient(product.a, product.b)


def _operand(builder: Builder, node: Node, k: int) -> Real:
    real = _condition(builder, node, k) or builder.real(node, k).unclipped(builder, node)
    if real.is_clipped or not real.has_one_scale or real.slope[0] == 0:
        raise _not_quantized(node, k, "is clipped" if real.is_clipped else "has a scale or an offset per channel")
    if real.rounded:
        raise _not_quantized(node, k, "is the result of a normalization")
    return replace(real, slope=real.slope[:1], offset=real.offset[:1])


def _condition(builder: Builder, node: Node, k: int) -> Real | None:
    """Return an operand that is 0 or 1 for every integer, on a stream of its own; None for other operands."""
    value = FunctionValue.cast(builder.values.get(node.inputs[k]))
    if value is None or value.partial or not builder.leads_to_product(node.outputs[0]):
        return None
    first, last = builder.materialize(value).range
    if last - first >= LARGEST_TABLE:
        return None
    numbers = value.numbers(np.arange(first, last + 1)[None, :])
    if not np.isin(numbers, (0, 1)).all():
        return None
    integers = value.requantized(builder, node, Grid.over(Int(1, signed=False)), name=f"{node.label}/condition")
    return Real(integers.tensor, integers.shape, integers.where)


def is_quantized_in_model(builder: Builder, tensor: str) -> bool:
    """Return whether the model itself quantizes a tensor, perhaps before it moves it; else its integers are sums."""
    makers = {name: node for node in builder.nodes for name in node.outputs}
    while tensor in makers and isinstance(makers[tensor].operator, Rearrange):
        tensor = makers[tensor].inputs[0]
    return any(value.is_integers and value.tensor == tensor for value in builder.values.values())


def _not_quantized(node: Node, k: int, what: str, quantized: bool = False) -> Obstacle:
    """Return the obstacle of an operand that must be quantized, or to fewer bits.

    Args:
        k: number of the operand.
        what: end of the message, a predicate of the operand's name.
        quantized: whether the model quantizes the operand already, so that only the model's author can reduce the bits.
    """
    bits = MAX_FACTOR_BITS if quantized or node.op_type in ("Mul", "Div") else 8
    return Obstacle(
        "operand-not-quantized",
        f"both operands of {node.op_type} must be quantized to at most {bits} bits with one scale;"
        f" `{node.inputs[k]}` {what}",
        f"put QuantizeLinear and DequantizeLinear between `{node.inputs[k]}` and `{node.label}`",
        "" if quantized else node.inputs[k],
    )


def _broadcast_in_one_order(builder: Builder, node: Node, a: Real, b: Real) -> tuple[Real, Real]:
    """Return both operands, broadcast to one shape and layout; a network's input takes that of the other operand."""
    shape = _broadcast_shape(node, a, b)
    if a.shape != shape and b.shape != shape:
        a = _expanded(builder, node, a, shape, None)
    leader, other = (a, b) if a.shape == shape else (b, a)
    if other.shape == shape and builder.stream_order(leader) is None:
        leader, other = other, leader  # an operand whose order is fixed gives the order to the other one
    tensor = builder.materialize(leader)
    order = builder.stream_order(leader)
    assert order is not None
    layout = Layout(tensor.shape, order)
    if other.shape == shape:
        other = builder.request_layout(other, layout, node)
    else:
        other = _expanded(builder, node, other, shape, layout)
    return (leader, other) if leader.tensor == a.tensor else (other, leader)


def _broadcast_shape(node: Node, a: Real, b: Real) -> tuple[int, ...]:
    if node.attributes.get("broadcast", 0) and a.shape != b.shape:
        raise Obstacle("two-tensors-broadcast", "before opset 7 two tensors must have one shape, not be broadcast")
    try:
        return np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise Obstacle(
            "two-tensors-broadcast",
            f"the shapes of two tensors must be broadcastable, not {list(a.shape)} and {list(b.shape)}",
        ) from None


def _expanded(builder: Builder, node: Node, value: Real, shape: tuple[int, ...], layout: Layout | None) -> Real:
    elements = np.arange(value.where.size).reshape(value.shape)
    origin = np.broadcast_to(elements, shape).reshape(-1)
    return builder.moved(value, origin, shape, node, layout)
