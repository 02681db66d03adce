"""Add, Sub, Mul, Div and BatchNormalization with constants: they change scale and offset, not the integers.

A negative factor of a product's sums changes the sign of the product's weights instead. Where that is not possible,
the node is a function of its data (``lookup.py``). Add, Sub, Mul and Div of two tensors are in ``binary.py``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.rationals import fractions
from onnx_hw.exact.requantization import LARGEST_TABLE
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import PER_PIXEL, Obstacle
from onnx_hw.lower.ops.binary import product_of, quotient_of, sum_of
from onnx_hw.lower.ops.constants import aligned, is_constant, scaled_constant
from onnx_hw.lower.ops.lookup import function_of
from onnx_hw.lower.ops.per_element import per_element, with_signs
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.function import FunctionValue
from onnx_hw.lower.values.per_channel import per_channel
from onnx_hw.lower.values.real import Real
from onnx_hw.lower.values.stream_numbers import StreamNumbers
from onnx_hw.onnx.canonicalize.batch_normalization import factor_and_term, is_training
from onnx_hw.onnx.graph.model import Node


@lowers("Add", "Sub", "Sum")
def add(builder: Builder, node: Node) -> None:
    """Accept a constant and data, or two quantized tensors."""
    if len(node.inputs) != 2:
        raise Obstacle("two-tensors", f"{node.op_type} must have two operands, not {len(node.inputs)}")
    if _is_function(builder, node):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    if not any(is_constant(builder, name) for name in node.inputs):
        builder.pending[node.outputs[0]] = sum_of(builder, node)
        return
    real, constant, is_second = _operands(builder, node)
    sign = Fraction(-1 if node.op_type == "Sub" else 1)
    real, terms = _with_constant_per_channel(builder, node, real, sign * constant if is_second else constant)
    _affine(builder, node, real, (Fraction(1) if is_second else sign,), terms)


@lowers("Mul", "Div")
def multiply(builder: Builder, node: Node) -> None:
    """Accept a constant and data, or two quantized tensors; the quotient of two is hardware before a product."""
    if all(is_constant(builder, name) for name in node.inputs):
        builder.constants[node.outputs[0]] = scaled_constant(builder, node, node.op_type == "Div")
        return
    if _is_function(builder, node) and node.outputs[0] not in builder.exact:
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    if not any(is_constant(builder, name) for name in node.inputs):
        builder.pending[node.outputs[0]] = (product_of if node.op_type == "Mul" else quotient_of)(builder, node)
        return
    real, constant, is_second = _operands(builder, node)
    real, factors = _with_constant_per_channel(builder, node, real, constant)
    if node.op_type == "Div" and is_second:
        if any(factor == 0 for factor in factors):
            raise Obstacle("division", "data must be divided by a constant other than 0")
        factors = tuple(1 / factor for factor in factors)
    if node.op_type == "Div" and not is_second:
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    _affine(builder, node, real, factors, (Fraction(0),))


@lowers("BatchNormalization")
def batch_normalization(builder: Builder, node: Node) -> None:
    """Accept a model that is exported for inference."""
    if is_training(node):
        raise Obstacle(
            "batch-training",
            "a BatchNormalization must not be in training mode",
            "export the model for inference",
        )
    data = builder.stream_numbers(node, partial=True)
    parameters = [builder.exact_constant(name) for name in node.inputs[1:5]]
    if any(array is None for array in parameters):
        raise Obstacle("not-constant", "scale, bias, mean and variance of a BatchNormalization must be constant")
    numbers = factor_and_term(node, [array for array in parameters if array is not None], len(data.shape))
    exact = (np.array(fractions(array), dtype=object).reshape(array.shape) for array in numbers)
    factors, terms = (per_channel(builder, data, array) for array in exact)
    affine = data.scaled(builder, node, factors, terms) or _with_turned_signs(builder, node, data, factors, terms)
    if affine is not None:
        builder.values[node.outputs[0]] = affine
        return
    columns = [np.array([[float(v)] for v in channels]) for channels in (factors, terms)]
    builder.values[node.outputs[0]] = FunctionValue(
        data.tensor,
        data.shape,
        data.where,
        lambda x: columns[0] * data.numbers(x) + columns[1],
        partial=not data.is_complete,
    )


def _is_function(builder: Builder, node: Node) -> bool:
    """Return whether a node combines several functions of the same integers, or one that only a table can hold."""
    operands = [builder.values[name] for name in node.inputs if name in builder.values]
    if any(not value.is_linear or (value.is_clipped and len(operands) > 1) for value in operands):
        return len({value.tensor for value in operands}) == 1 and not any(n in builder.pending for n in node.inputs)
    if len(operands) != 2:
        return False
    a, b = operands
    return a.tensor == b.tensor and np.array_equal(a.where, b.where)


def _operands(builder: Builder, node: Node) -> tuple[Real, np.ndarray, bool]:
    """Return the data, the constant, and whether the constant is the second operand."""
    for data, other in ((0, 1), (1, 0)):
        constant = builder.exact_constant(node.inputs[other])
        if constant is not None:
            real = builder.real(node, data, partial=True)
            return real, aligned(node, constant, len(real.shape)), other == 1
    raise Obstacle(
        "two-tensors", f"one operand of {node.op_type} must be constant: {node.op_type} of two tensors has no hardware"
    )


def _with_constant_per_channel(
    builder: Builder, node: Node, real: Real, constant: np.ndarray
) -> tuple[Real, tuple[Fraction, ...]]:
    """Return the data, and the constant as one entry per channel of their stream.

    Where the constant differs between the pixels of a channel, every element becomes a channel.
    """
    try:
        return real, per_channel(builder, real, constant)
    except Obstacle as obstacle:
        if obstacle.code != PER_PIXEL or real.is_clipped:
            raise
        if real.rounded and len(real.shape) in (3, 4) and real.shape[0] == 1:  # pixels were groups, not places
            with suppress(Obstacle):
                image, _ = builder.image(real, node)
                return image, per_channel(builder, image, constant)
        real = per_element(builder, node, real)
        return real, per_channel(builder, real, constant)


def _affine(
    builder: Builder, node: Node, real: Real, factors: tuple[Fraction, ...], terms: tuple[Fraction, ...]
) -> None:
    """Set the result of a node to ``factors · real + terms``, or to a function where the value has no such form."""
    affine = real.scaled(builder, node, factors, terms) or _with_turned_signs(builder, node, real, factors, terms)
    if affine is None:
        try:
            builder.values[node.outputs[0]] = function_of(builder, node)
            return
        except Obstacle as obstacle:  # a table for every pixel would be too large
            if obstacle.code != PER_PIXEL or not builder.leads_to_product(node.outputs[0]):
                raise
            affine = _affine_with_signs(builder, node, real, factors, terms)
            if affine is None:
                raise
    builder.values[node.outputs[0]] = replace(affine, shape=builder.shape(node.outputs[0]))


def _with_turned_signs(
    builder: Builder, node: Node, value: StreamNumbers, factors: tuple[Fraction, ...], terms: tuple[Fraction, ...]
) -> Real | None:
    """Build ``factors · value + terms`` by products with signs where tables of all channels would be too large.

    None where a table will do, or the value has no such product.
    """
    real = Real.cast(value)
    if real is None or real.partial or max(len(factors), len(terms)) == 1:
        return None
    tensor = builder.materialize(real)
    first, last = tensor.range
    if tensor.channels * (last - first + 1) <= LARGEST_TABLE:
        return None
    return _affine_with_signs(builder, node, real, factors, terms)


def _affine_with_signs(
    builder: Builder, node: Node, real: Real, factors: tuple[Fraction, ...], terms: tuple[Fraction, ...]
) -> Real | None:
    """Build ``factors · real + terms`` on integers times the signs of the factors; None where there is no product."""
    signed = with_signs(builder, node, real, factors)
    return None if signed is None else signed.scaled(builder, node, tuple(map(abs, factors)), terms)
