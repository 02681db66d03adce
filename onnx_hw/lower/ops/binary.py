"""Add, Sub and Mul of two tensors, each with a scale of its own: hardware when the result is quantized."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.grid import Grid
from onnx_hw.exact.quantized_add import MAX_OPERAND_VALUES, separate
from onnx_hw.exact.wide_quantized_add import MAX_WIDE_OPERAND_VALUES, find_weighted_sum
from onnx_hw.lower.builder import Builder, Obstacle
from onnx_hw.lower.layout.stream_layout import Layout
from onnx_hw.lower.ops.requantize import unclipped
from onnx_hw.lower.values import IntegerStream, PendingProduct, PendingSum, Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.add import Add
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.requantize import Requantize, Staircase

MAX_WIDE_OPERAND_VALUES_FACTOR = 16
"""Bits of an operand of a product."""


def sum_of(builder: Builder, node: Node) -> PendingSum:
    """The sum or difference of a node's inputs.

    Raises:
        Obstacle: the operands have no integers of their own.
    """
    a, b = _in_one_order(builder, node, *(_operand(builder, node, k) for k in range(2)))
    for k, real in enumerate((a, b)):
        first, last = builder.tensors[real.tensor].range
        data = _is_data(builder, real.tensor)
        if last - first >= (MAX_WIDE_OPERAND_VALUES if data else MAX_OPERAND_VALUES):
            raise _not_quantized(node, k, f"has the integers {first}..{last}", data)
    return PendingSum(a, b, -1 if node.op_type == "Sub" else 1)


def quantize_sum(builder: Builder, node: Node, value: PendingSum, grid: Grid) -> IntegerStream:
    """Integers of a sum: a weighted sum of the operands' integers, and its steps."""
    a, b = (builder.tensors[real.tensor] for real in (value.a, value.b))
    (p,), (q,) = value.a.slope, value.b.slope
    (c,), (d,) = value.a.offset, value.b.offset
    line = (p, value.sign * q), c + value.sign * d
    try:
        long = any(last - first >= MAX_OPERAND_VALUES for first, last in (a.range, b.range))
        found = (find_weighted_sum if long else separate)(*line, (a.range, b.range), grid)
    except ValueError as error:
        raise Obstacle(
            "sum-too-wide",
            f"the sum must be exact in 61 bits; that of operands of {a.dtype.bits} and {b.dtype.bits} bits in "
            f"{grid.dtype.bits} bits is not: {error}",
            "fewer bits of one of them: up to 13 there is always one",
        ) from None
    operands = [value.a.tensor, value.b.tensor]
    total = builder.add(f"{node.label}/sum", Add(a, b, found.factors), operands, node)
    staircase = Staircase(builder.tensors[total], found.exact, grid.dtype)
    tensor = builder.add(node.label, staircase, [total], node, output=node.outputs[0])
    return IntegerStream(tensor, value.a.shape, builder.positions(value.a))


def product_of(builder: Builder, node: Node) -> PendingProduct:
    """The product of a node's inputs.

    Raises:
        Obstacle: the operands have no integers of their own, or none that stands for 0.
    """
    a, b = _in_one_order(builder, node, *(_operand(builder, node, k) for k in range(2)))
    for k, real in enumerate((a, b)):
        if real.zero_point is None or builder.tensors[real.tensor].dtype.bits > MAX_WIDE_OPERAND_VALUES_FACTOR:
            raise _not_quantized(node, k, f"is {builder.tensors[real.tensor].dtype!r} or has no zero point")
    return PendingProduct(a, b)


def quantize_product(builder: Builder, node: Node, value: PendingProduct, grid: Grid) -> IntegerStream:
    """Integers of a product: those of ``s_a s_b (a − z_a)(b − z_b)``."""
    total, scale = _multiplied(builder, node, value)
    requantize = Requantize(builder.tensors[total], (scale,), (Fraction(0),), grid)
    tensor = builder.add(node.label, requantize, [total], node, output=node.outputs[0])
    return IntegerStream(tensor, value.a.shape, builder.positions(value.a))


def _multiplied(builder: Builder, node: Node, value: PendingProduct) -> tuple[str, Fraction]:
    """The tensor with (a − z_a)(b − z_b), and what its integers stand for."""
    a, b = (builder.tensors[real.tensor] for real in (value.a, value.b))
    offsets = [-real.zero_point for real in (value.a, value.b) if real.zero_point is not None]
    product = Multiply(a, b, (offsets[0], offsets[1]))
    total = builder.add(f"{node.label}/product", product, [value.a.tensor, value.b.tensor], node)
    return total, value.a.slope[0] * value.b.slope[0]


MOST_FACTOR = 1 << 8
"""Of the integers of an operand, where a sum of two is a weighted sum of their integers."""


def in_one_tensor(
    builder: Builder, node: Node, value: PendingSum | PendingProduct
) -> Real | PendingSum | PendingProduct:
    """A product, or a sum of operands whose steps have a simple ratio, as real numbers on a stream; else as it is."""
    a, b = (builder.tensors[real.tensor] for real in (value.a, value.b))
    if isinstance(value, PendingProduct):
        total, slope = _multiplied(builder, node, value)
        real = Real(total, value.shape, builder.positions(value.a), (slope,))
    else:
        (p,), (c,), (d,) = value.a.slope, value.a.offset, value.b.offset
        factors = factors_of(value)
        if factors is None:
            return value
        add = Add(a, b, (factors[0], value.sign * factors[1]))
        total = builder.add(f"{node.label}/sum", add, [value.a.tensor, value.b.tensor], node)
        line = (p / factors[0],), (c + value.sign * d,)
        real = Real(total, value.shape, builder.positions(value.a), *line)
    return replace(real, low=value.low, high=value.high)


def factors_of(value: PendingSum) -> tuple[int, int] | None:
    """Of the operands' integers, where their steps have a simple ratio; both are positive."""
    (p,), (q,) = value.a.slope, value.b.slope
    factors = (p / q).as_integer_ratio()
    return None if max(factors) > MOST_FACTOR else factors


def _operand(builder: Builder, node: Node, k: int) -> Real:
    real = unclipped(builder, node, builder.real(node, k))
    if real.clipped or len(set(real.slope)) != 1 or len(set(real.offset)) != 1 or real.slope[0] == 0:
        raise _not_quantized(node, k, "is clipped" if real.clipped else "has a scale or an offset per channel")
    return replace(real, slope=real.slope[:1], offset=real.offset[:1])


def _is_data(builder: Builder, tensor: str) -> bool:
    """Whether a tensor has the integers that the model says, rather than sums."""
    return any(isinstance(value, IntegerStream) and value.tensor == tensor for value in builder.values.values())


def _not_quantized(node: Node, k: int, what: str, quantized: bool = False) -> Obstacle:
    """``quantized`` says that the operand has integers, which nobody but the model's author replaces by fewer."""
    bits = MAX_WIDE_OPERAND_VALUES_FACTOR if quantized or node.op_type == "Mul" else 8
    return Obstacle(
        "operand-not-quantized",
        f"both operands of {node.op_type} must be quantized to at most {bits} bits with one scale;"
        f" `{node.inputs[k]}` {what}",
        f"put QuantizeLinear and DequantizeLinear between `{node.inputs[k]}` and `{node.label}`",
        "" if quantized else node.inputs[k],
    )


def _in_one_order(builder: Builder, node: Node, a: Real, b: Real) -> tuple[Real, Real]:
    """Both operands broadcast to one shape and laid out alike; inputs of the network may still choose their order."""
    shape = _broadcast_shape(node, a, b)
    if a.shape != shape and b.shape != shape:
        a = _expanded(builder, node, a, shape, None)
    whole, other = (a, b) if a.shape == shape else (b, a)
    if other.shape == shape and builder.stream_order(whole) is None:
        whole, other = other, whole  # the one whose order is fixed, if there is one, leads
    tensor = builder.settled(whole)
    order = builder.stream_order(whole)
    assert order is not None
    layout = Layout(tensor.shape, order)
    if other.shape == shape:
        other = builder.want(other, layout, node)
    else:
        other = _expanded(builder, node, other, shape, layout)
    return (whole, other) if whole.tensor == a.tensor else (other, whole)


def _broadcast_shape(node: Node, a: Real, b: Real) -> tuple[int, ...]:
    if node.attributes.get("broadcast", 0) and a.shape != b.shape:
        raise Obstacle("two-tensors-broadcast", "before opset 7 two tensors must have one shape, not be broadcast")
    try:
        return np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise Obstacle(
            "two-tensors-broadcast", f"two tensors must fit together, not {list(a.shape)} and {list(b.shape)}"
        ) from None


def _expanded(builder: Builder, node: Node, value: Real, shape: tuple[int, ...], layout: Layout | None) -> Real:
    elements = np.arange(value.where.size).reshape(value.shape)
    origin = np.broadcast_to(elements, shape).reshape(-1)
    return builder.moved(value, origin, shape, node, layout)
