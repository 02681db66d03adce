"""Add, Sub, Mul, Div and BatchNormalization with constants: they change what the integers stand for, not the integers.

Where that is not possible (a factor turns the sign) the node is a function of its data (``functions.py``). Add, Sub and
Mul of two tensors are in ``two_tensors.py``.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.onnx.model import Node
from onnx_hw.quantize.builder import Builder, Obstacle
from onnx_hw.quantize.lower.constants import aligned, is_constant, per_channel
from onnx_hw.quantize.lower.functions import function_of
from onnx_hw.quantize.lower.registry import lowers
from onnx_hw.quantize.lower.two_tensors import product_of, sum_of
from onnx_hw.quantize.values import Function, Real, fractions


@lowers("Add", "Sub", "Sum")
def add(builder: Builder, node: Node) -> None:
    """a constant of one value per channel, or two quantized tensors"""
    if len(node.inputs) != 2:
        raise Obstacle("two-tensors", f"{node.op_type} must have two operands, not {len(node.inputs)}")
    if _is_function(builder, node):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    if not any(is_constant(builder, name) for name in node.inputs):
        builder.pending[node.outputs[0]] = sum_of(builder, node)
        return
    real, constant, second = _operands(builder, node)
    if node.op_type == "Sub":
        if not second:
            builder.values[node.outputs[0]] = function_of(builder, node)
            return
        constant = -constant
    terms = per_channel(builder, real, constant)
    size = max(len(terms), len(real.offset))
    offset = tuple(a + b for a, b in zip(_wide(real.offset, size), _wide(terms, size), strict=True))
    builder.values[node.outputs[0]] = _changed(real, real.slope, offset, builder.shape(node.outputs[0]))


@lowers("Mul", "Div")
def multiply(builder: Builder, node: Node) -> None:
    """a constant of one value per channel; Mul also two quantized tensors"""
    if _is_function(builder, node):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    if node.op_type == "Mul" and not any(is_constant(builder, name) for name in node.inputs):
        builder.pending[node.outputs[0]] = product_of(builder, node)
        return
    real, constant, second = _operands(builder, node)
    factors = per_channel(builder, real, constant)
    if node.op_type == "Div" and second:
        if any(factor == 0 for factor in factors):
            raise Obstacle("division", "data must be divided by a constant other than 0")
        factors = tuple(1 / factor for factor in factors)
    if any(factor <= 0 for factor in factors) or (node.op_type == "Div" and not second):
        builder.values[node.outputs[0]] = function_of(builder, node)
        return
    builder.values[node.outputs[0]] = _scaled(real, factors, (Fraction(0),), builder.shape(node.outputs[0]))


@lowers("BatchNormalization")
def batch_normalization(builder: Builder, node: Node) -> None:
    """for inference"""
    if node.attributes.get("training_mode", 0) or any(node.outputs[1:]):
        raise Obstacle(
            "batch-training",
            "a BatchNormalization must not be in training mode",
            "export the model for inference",
        )
    value = builder.values.get(node.inputs[0])
    data = value if isinstance(value, Function) else builder.real(node, partial=True)
    rank = len(data.shape)
    scale, bias, mean, variance = (_float_constant(builder, node, k) for k in range(1, 5))
    epsilon = float(np.float32(node.attributes.get("epsilon", 1e-5)))
    factor = scale / np.sqrt(variance + epsilon)
    along = (-1,) + (1,) * (rank - 2) if rank > 1 else (-1,)
    exact = [np.array(fractions(v), dtype=object).reshape(along) for v in (factor, bias - mean * factor)]
    factors, terms = (per_channel(builder, data, numbers) for numbers in exact)
    if isinstance(data, Real) and not data.clipped and all(f > 0 for f in factors):
        builder.values[node.outputs[0]] = _scaled(data, factors, terms, data.shape)
        return
    builder.elements(node)  # raises where places are not settled
    columns = [np.array([[float(v)] for v in numbers]) for numbers in (factors, terms)]
    before = data.numbers

    def numbers(integers: np.ndarray) -> np.ndarray:
        return columns[0] * before(integers) + columns[1]

    builder.values[node.outputs[0]] = Function(data.tensor, data.shape, data.where, numbers)


def _float_constant(builder: Builder, node: Node, k: int) -> np.ndarray:
    """float64 (channels,)."""
    exact = builder.exact_constant(node.inputs[k])
    if exact is None:
        raise Obstacle("not-constant", f"`{node.inputs[k]}` of a BatchNormalization must be constant")
    return exact.astype(np.float64).reshape(-1)


def _is_function(builder: Builder, node: Node) -> bool:
    """Whether a node combines several functions of the same integers, or something that only a table can hold."""
    read = [builder.values[name] for name in node.inputs if name in builder.values]
    if any(isinstance(value, Function) or (isinstance(value, Real) and value.clipped) for value in read):
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


def _scaled(real: Real, factors: tuple[Fraction, ...], terms: tuple[Fraction, ...], shape: tuple[int, ...]) -> Real:
    size = max(len(factors), len(terms), len(real.slope), len(real.offset))
    slope = tuple(a * f for a, f in zip(_wide(real.slope, size), _wide(factors, size), strict=True))
    offset = tuple(
        a * f + t for a, f, t in zip(_wide(real.offset, size), _wide(factors, size), _wide(terms, size), strict=True)
    )
    return _changed(real, slope, offset, shape)


def _changed(real: Real, slope: tuple[Fraction, ...], offset: tuple[Fraction, ...], shape: tuple[int, ...]) -> Real:
    size = max(len(slope), len(offset))
    return replace(real, slope=_wide(slope, size), offset=_wide(offset, size), shape=shape)


def _wide(values: tuple[Fraction, ...], size: int) -> tuple[Fraction, ...]:
    return values * size if len(values) == 1 else values
