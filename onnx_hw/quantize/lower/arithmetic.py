"""Add, Sub, Mul and Div with a constant: they change what the integers stand for, not the integers.

Add and Sub of two tensors are in ``two_tensors.py``.

Before opset 7 the shorter operand was aligned by an attribute, not with the last axes.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.onnx.model import Node
from onnx_hw.quantize.builder import Builder, Obstacle
from onnx_hw.quantize.lower.registry import lowers
from onnx_hw.quantize.lower.two_tensors import sum_of
from onnx_hw.quantize.values import Real


def per_channel(builder: Builder, real: Real, constant: np.ndarray) -> tuple[Fraction, ...]:
    """A constant that is broadcast to a value, as one entry per channel of the stream.

    Raises:
        Obstacle: it differs between pixels, or widens the value.
    """
    try:
        full = np.broadcast_to(constant, real.shape).reshape(-1)
    except ValueError:
        raise Obstacle(
            "broadcast", f"a constant {list(constant.shape)} must fit into the data {list(real.shape)}"
        ) from None
    if np.size(constant) == 1:
        return (full[0],)
    builder.settled(real)
    order = builder.stream_order(real)
    assert order is not None
    stream = full[order].reshape(-1, builder.tensors[real.tensor].channels)
    if (stream != stream[0]).any():
        raise Obstacle("constant-per-pixel", "a constant must be the same for all pixels of a channel")
    return tuple(stream[0])


def _operands(builder: Builder, node: Node) -> tuple[Real, np.ndarray, bool]:
    """(data, constant, whether the constant comes second)."""
    for data, other in ((0, 1), (1, 0)):
        constant = builder.exact_constant(node.inputs[other])
        if constant is not None and node.inputs[data] in builder.values:
            real = builder.real(node, data)
            if real.clipped:
                raise Obstacle("after-clip", "between a Relu or Clip and this node there must be a QuantizeLinear")
            return real, _aligned(node, constant, len(real.shape)), other == 1
    raise Obstacle("two-tensors", f"{node.op_type} of two tensors is not built yet: one operand must be constant")


def _is_constant(builder: Builder, name: str) -> bool:
    return builder.constant(name) is not None or name in builder.constants


def _aligned(node: Node, constant: np.ndarray, rank: int) -> np.ndarray:
    """A constant with its axes where the operator before opset 7 puts them: from ``axis`` on, when it is given."""
    if "axis" not in node.attributes:
        return constant
    axis = int(node.attributes["axis"]) % rank
    return constant.reshape(constant.shape + (1,) * (rank - axis - constant.ndim))


def _shifted(real: Real, slope: tuple[Fraction, ...], offset: tuple[Fraction, ...], shape: tuple[int, ...]) -> Real:
    size = max(len(slope), len(offset))
    return replace(real, slope=_wide(slope, size), offset=_wide(offset, size), shape=shape)


def _wide(values: tuple[Fraction, ...], size: int) -> tuple[Fraction, ...]:
    return values * size if len(values) == 1 else values


@lowers("Add", "Sub")
def add(builder: Builder, node: Node) -> None:
    """a constant of one value per channel, or two quantized tensors of one shape"""
    if not any(_is_constant(builder, name) for name in node.inputs):
        builder.sums[node.outputs[0]] = sum_of(builder, node)
        return
    real, constant, second = _operands(builder, node)
    if node.op_type == "Sub":
        if not second:
            raise Obstacle("negated", "a constant minus data turns the sign of the data, which is not built yet")
        constant = -constant
    terms = per_channel(builder, real, constant)
    size = max(len(terms), len(real.offset))
    offset = tuple(a + b for a, b in zip(_wide(real.offset, size), _wide(terms, size), strict=True))
    builder.values[node.outputs[0]] = _shifted(real, real.slope, offset, builder.shape(node.outputs[0]))


@lowers("Mul", "Div")
def multiply(builder: Builder, node: Node) -> None:
    """a positive constant of one value per channel"""
    real, constant, second = _operands(builder, node)
    factors = per_channel(builder, real, constant)
    if node.op_type == "Div":
        if not second or any(factor == 0 for factor in factors):
            raise Obstacle("division", "data must be divided by a constant other than 0")
        factors = tuple(1 / factor for factor in factors)
    if any(factor <= 0 for factor in factors):
        raise Obstacle("negative-factor", "data must be multiplied by a positive constant")
    size = max(len(factors), len(real.slope), len(real.offset))
    slope = tuple(a * f for a, f in zip(_wide(real.slope, size), _wide(factors, size), strict=True))
    offset = tuple(a * f for a, f in zip(_wide(real.offset, size), _wide(factors, size), strict=True))
    builder.values[node.outputs[0]] = _shifted(real, slope, offset, builder.shape(node.outputs[0]))
