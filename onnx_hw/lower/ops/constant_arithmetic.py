"""Add, Sub, Mul, Div and BatchNormalization with constants: they change what the integers stand for, not the integers.

A factor that turns the sign of a product's sums turns that of its weights. Where that is not possible, the node is a
function of its data (``functions.py``). Add, Sub and
Mul of two tensors are in ``two_tensors.py``.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.rationals import fractions
from onnx_hw.lower.builder import Builder, Obstacle
from onnx_hw.lower.ops.binary import product_of, sum_of
from onnx_hw.lower.ops.constants import aligned, is_constant, per_channel, scaled_constant
from onnx_hw.lower.ops.lookup import function_of
from onnx_hw.lower.ops.per_element import PER_PIXEL, per_element
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values import FunctionValue, Real
from onnx_hw.onnx.canonicalize.batch_normalization import factor_and_term, is_training
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.pool import Pool
from onnx_hw.ops.reduce import Reduce


@lowers("Add", "Sub", "Sum")
def add(builder: Builder, node: Node) -> None:
    """a constant, or two quantized tensors"""
    if len(node.inputs) != 2:
        raise Obstacle("two-tensors", f"{node.op_type} must have two operands, not {len(node.inputs)}")
    if _is_function(builder, node):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    if not any(is_constant(builder, name) for name in node.inputs):
        builder.pending[node.outputs[0]] = sum_of(builder, node)
        return
    real, constant, second = _operands(builder, node)
    sign = Fraction(-1 if node.op_type == "Sub" else 1)
    real, terms = _beside(builder, node, real, sign * constant if second else constant)
    _affine(builder, node, real, (Fraction(1) if second else sign,), terms)


@lowers("Mul", "Div")
def multiply(builder: Builder, node: Node) -> None:
    """a constant; Mul also two quantized tensors"""
    if all(is_constant(builder, name) for name in node.inputs):
        builder.constants[node.outputs[0]] = scaled_constant(builder, node, node.op_type == "Div")
        return
    if _is_function(builder, node):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    if node.op_type == "Mul" and not any(is_constant(builder, name) for name in node.inputs):
        builder.pending[node.outputs[0]] = product_of(builder, node)
        return
    real, constant, second = _operands(builder, node)
    real, factors = _beside(builder, node, real, constant)
    if node.op_type == "Div" and second:
        if any(factor == 0 for factor in factors):
            raise Obstacle("division", "data must be divided by a constant other than 0")
        factors = tuple(1 / factor for factor in factors)
    if node.op_type == "Div" and not second:
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    _affine(builder, node, real, factors, (Fraction(0),))


@lowers("BatchNormalization")
def batch_normalization(builder: Builder, node: Node) -> None:
    """for inference"""
    if is_training(node):
        raise Obstacle(
            "batch-training",
            "a BatchNormalization must not be in training mode",
            "export the model for inference",
        )
    value = builder.values.get(node.inputs[0])
    data = value if isinstance(value, FunctionValue) else builder.real(node, partial=True)
    known = [builder.exact_constant(name) for name in node.inputs[1:5]]
    if any(array is None for array in known):
        raise Obstacle("not-constant", "scale, bias, mean and variance of a BatchNormalization must be constant")
    numbers = factor_and_term(node, [array for array in known if array is not None], len(data.shape))
    exact = (np.array(fractions(array), dtype=object).reshape(array.shape) for array in numbers)
    factors, terms = (per_channel(builder, data, array) for array in exact)
    line = scaled(builder, node, data, factors, terms) if isinstance(data, Real) else None
    if line is not None:
        builder.values[node.outputs[0]] = line
        return
    columns = [np.array([[float(v)] for v in channels]) for channels in (factors, terms)]
    before = data.numbers
    builder.values[node.outputs[0]] = FunctionValue(
        data.tensor, data.shape, data.where, lambda x: columns[0] * before(x) + columns[1], data.partial
    )


def _is_function(builder: Builder, node: Node) -> bool:
    """Whether a node combines several functions of the same integers, or something that only a table can hold."""
    read = [builder.values[name] for name in node.inputs if name in builder.values]
    alone = len(read) == 1 and isinstance(read[0], Real)
    if not alone and any(
        isinstance(value, FunctionValue) or (isinstance(value, Real) and value.clipped) for value in read
    ):
        return len({value.tensor for value in read}) == 1 and not any(n in builder.pending for n in node.inputs)
    return len(read) == 2 and read[0].tensor == read[1].tensor and np.array_equal(read[0].where, read[1].where)


def _operands(builder: Builder, node: Node) -> tuple[Real, np.ndarray, bool]:
    """(data, constant, whether the constant comes second)."""
    for data, other in ((0, 1), (1, 0)):
        constant = builder.exact_constant(node.inputs[other])
        if constant is not None:
            real = builder.real(node, data, partial=True)
            return real, aligned(node, constant, len(real.shape)), other == 1
    raise Obstacle("two-tensors", f"{node.op_type} of two tensors is not built: one operand must be constant")


def _beside(builder: Builder, node: Node, real: Real, constant: np.ndarray) -> tuple[Real, tuple[Fraction, ...]]:
    """Data, and a constant as one entry per channel of their stream: that of each element, where it must be."""
    try:
        return real, per_channel(builder, real, constant)
    except Obstacle as obstacle:
        if obstacle.code != PER_PIXEL or real.clipped:
            raise
        real = per_element(builder, node, real)
        return real, per_channel(builder, real, constant)


def _affine(
    builder: Builder, node: Node, real: Real, factors: tuple[Fraction, ...], terms: tuple[Fraction, ...]
) -> None:
    """The result of a node: ``factors · real + terms``, or where that is no such value, a function."""
    line = scaled(builder, node, real, factors, terms)
    if line is None:
        builder.values[node.outputs[0]] = function_of(builder, node)
    else:
        builder.values[node.outputs[0]] = replace(line, shape=builder.shape(node.outputs[0]))


def scaled(
    builder: Builder, node: Node, real: Real, factors: tuple[Fraction, ...], terms: tuple[Fraction, ...]
) -> Real | None:
    """``factors · real + terms``; None where factors are not positive and cannot become so, or bounds would differ."""
    if any(factor <= 0 for factor in factors):
        turned = None if real.clipped else _turned(builder, node, real, factors)
        if turned is None:
            return None
        real = turned
    elif real.clipped and (len(factors) > 1 or len(terms) > 1):
        return None
    bounds = (None if bound is None else bound * factors[0] + terms[0] for bound in (real.low, real.high))
    low, high = bounds
    size = max(len(factors), len(terms), len(real.slope), len(real.offset))
    slope, offset, factors, terms = (_wide(v, size) for v in (real.slope, real.offset, factors, terms))
    return replace(
        real,
        slope=tuple(abs(a * f) for a, f in zip(slope, factors, strict=True)),
        offset=tuple(o * f + t for o, f, t in zip(offset, factors, terms, strict=True)),
        low=low,
        high=high,
        error=real.error * max(abs(factor) for factor in factors),
    )


def _turned(builder: Builder, node: Node, real: Real, factors: tuple[Fraction, ...]) -> Real | None:
    """The sums of a product with the other sign where a factor is negative; None where these are no such sums."""
    channels = builder.settled(real).channels
    signs = np.array([-1 if factor < 0 else 1 for factor in _wide(factors, channels)])
    turned = _turned_stream(builder, node, real.tensor, signs)
    return None if turned is None else replace(real, tensor=turned)


def _turned_stream(builder: Builder, node: Node, tensor: str, signs: np.ndarray) -> str | None:
    """The weights have that sign. The product as it was is not built, if nobody else needs it."""
    made = next((m for m in builder.nodes if m.outputs == (tensor,)), None)
    match made.operator if made is not None else None:
        case (MatMul() | Depthwise()) as product if isinstance(product.weights, np.ndarray):
            weights = product.weights
            opposite: Operator = replace(product, weights=weights * signs.reshape(-1, *[1] * (weights.ndim - 1)))
            inputs = made.inputs if made is not None else ()
        case (Pool(kind="sum") | Reduce(kind="sum")) as total if made is not None:
            before = None if _counts_pads(total) else _turned_stream(builder, node, made.inputs[0], signs)
            if before is None:
                return None
            opposite, inputs = replace(total, operand=builder.tensors[before]), (before,)
        case _:
            return None
    assert made is not None
    return builder.add(f"{made.name}/turned", opposite, inputs, node)


def _counts_pads(operator: Pool | Reduce) -> bool:
    """Whether numbers that nobody turns are summed up, too."""
    return isinstance(operator, Pool) and any(operator.pads) and operator.pad_value != 0


def _wide(values: tuple[Fraction, ...], size: int) -> tuple[Fraction, ...]:
    return values * size if len(values) == 1 else values
