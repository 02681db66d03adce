"""Add and Sub of two tensors, each with a scale of its own: hardware when their sum is quantized."""

from __future__ import annotations

from fractions import Fraction

from onnx_hw.integers import Int
from onnx_hw.network import Tensor
from onnx_hw.onnx.model import Node
from onnx_hw.ops.add import Add
from onnx_hw.ops.requantize import Staircase
from onnx_hw.quantize.builder import Builder, Obstacle
from onnx_hw.quantize.sums import LARGEST, separate
from onnx_hw.quantize.values import Integers, Real, Sum


def sum_of(builder: Builder, node: Node) -> Sum:
    """The sum or difference of a node's inputs.

    Raises:
        Obstacle: the operands have no integers of their own, or do not arrive element by element.
    """
    a, b = (_operand(builder, node, k) for k in range(2))
    if a.shape != b.shape:
        raise Obstacle(
            "two-tensors-broadcast",
            f"two tensors must have one shape to be added, not {list(a.shape)} and {list(b.shape)}",
        )
    _in_one_order(builder, a, b)
    for k, real in enumerate((a, b)):
        first, last = builder.tensors[real.tensor].range
        if last - first >= LARGEST:
            raise _not_quantized(node, k, f"has the integers {first}..{last}")
    return Sum(a, b, -1 if node.op_type == "Sub" else 1)


def quantize_sum(
    builder: Builder, node: Node, value: Sum, step: Fraction, zero_point: int, bounds: tuple[int, int], dtype: Int
) -> Integers:
    """Integers of a sum: a weighted sum of the operands' integers, and its steps."""
    a, b = (builder.tensors[real.tensor] for real in (value.a, value.b))
    (p,), (q,) = value.a.slope, value.b.slope
    (c,), (d,) = value.a.offset, value.b.offset
    weighted = separate(
        (p / step, value.sign * q / step),
        (c + value.sign * d) / step,
        (a.range, b.range),
        zero_point=zero_point,
        low=bounds[0],
        high=bounds[1],
    )
    operands = [value.a.tensor, value.b.tensor]
    total = builder.add(f"{node.label}/sum", Add(a, b, weighted.factors), operands, node)
    staircase = Staircase(builder.tensors[total], weighted.exact, dtype)
    tensor = builder.add(node.label, staircase, [total], node, output=node.outputs[0])
    return Integers(tensor, value.a.shape, builder.elementwise_where(value.a))


def _operand(builder: Builder, node: Node, k: int) -> Real:
    real = builder.real(node, k)
    if real.clipped or len(real.slope) != 1 or len(real.offset) != 1 or real.slope[0] == 0:
        raise _not_quantized(node, k, "is clipped" if real.clipped else "has a scale or an offset per channel")
    return real


def _not_quantized(node: Node, k: int, what: str) -> Obstacle:
    return Obstacle(
        "operand-not-quantized",
        f"both operands of {node.op_type} must be quantized to at most 8 bits with one scale;"
        f" `{node.inputs[k]}` {what}",
        f"put QuantizeLinear and DequantizeLinear between `{node.inputs[k]}` and `{node.label}`",
    )


def _in_one_order(builder: Builder, a: Real, b: Real) -> None:
    """Fix the order of inputs of the network that are still free; the streams must then agree."""
    known, other = (a, b) if builder.stream_order(a) is not None else (b, a)
    tensor: Tensor = builder.settled(known)
    order = builder.stream_order(known)
    assert order is not None
    builder.want(other, order, tensor.shape)
