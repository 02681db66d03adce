"""MatMul and Gemm with constant weights; a MatMul of two tensors is in ``dynamic_products.py``."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.exact.rationals import fractions
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.constants import is_constant
from onnx_hw.lower.ops.conv import quantized_weights
from onnx_hw.lower.ops.dynamic_products import product_of_tensors
from onnx_hw.lower.ops.matmul_operand import MAX_LINES, columns_of, from_zero, operand_of_product
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.real import Real
from onnx_hw.onnx.graph.model import Node
from onnx_hw.ops.matmul import MatMul


@lowers("MatMul")
def matmul(builder: Builder, node: Node) -> None:
    """Multiply quantized data by constants on either side, or by another quantized tensor."""
    if not is_constant(builder, node.inputs[1]):
        product_of_tensors(builder, node)
        return
    weights = quantized_weights(builder, node, 1)
    if weights.stored.ndim != 2:
        raise Obstacle("weights-rank", f"the weights must be a matrix, not {list(weights.shape)}")
    _product(builder, node, _transposed(weights), None)


@lowers("Gemm")
def gemm(builder: Builder, node: Node) -> None:
    """Multiply quantized data by a constant matrix on either side, or by another tensor, with an alpha other than 0."""
    attributes = node.attributes
    if attributes.get("transA", 0):
        raise Obstacle("gemm-transa", "transA of a Gemm must be 0: the data must not be transposed")
    weights = quantized_weights(builder, node, 1)
    if not attributes.get("transB", 0):
        weights = _transposed(weights)
    (alpha,) = fractions(np.asarray(attributes.get("alpha", 1.0), dtype=np.float32))
    if alpha == 0:
        raise Obstacle("gemm-alpha", "alpha of a Gemm must not be 0: the result would not depend on the data")
    integers = weights.stored if alpha > 0 else -weights.integers
    weights = replace(weights, stored=integers, scale=tuple(abs(alpha) * s for s in weights.scale))
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = builder.exact_constant(node.inputs[2])
        if bias is None:
            raise Obstacle("bias-not-constant", f"the bias `{node.inputs[2]}` must be constant")
        (beta,) = fractions(np.asarray(attributes.get("beta", 1.0), dtype=np.float32))
        bias = np.asarray(bias * beta, dtype=object)
    _product(builder, node, weights, bias)


def _transposed(weights: QuantizedConstant) -> QuantizedConstant:
    """Return weights (in, out) as (out, in)."""
    return QuantizedConstant(weights.stored.T, weights.scale, 1 - weights.axis)


def _product(builder: Builder, node: Node, weights: QuantizedConstant, bias: np.ndarray | None) -> None:
    """Add ``data · weightsᵀ + bias`` to the network: weights (outputs, inputs), and a bias to broadcast, or None."""
    real = operand_of_product(builder, node)
    if len(weights.scale) > 1 and weights.axis != 0:
        raise Obstacle("weight-axis", "weights must have one scale, or one per output, not one per input")
    outputs, inputs = weights.shape
    if outputs > MAX_LINES and len(weights.scale) == 1 and real.zero_point:
        real = from_zero(builder, node, real, "from_zero", 0)
    shape = builder.shape(node.outputs[0])
    if real.where.size == inputs:
        stream, order = builder.vector(real, node)
        columns = columns_of(real, order)
        matrix = weights.stored[:, order]
    else:  # the same weights for every row of the data: rows are pixels
        real = builder.rows(real, inputs, node)
        stream, matrix, columns = real.tensor, weights.stored, columns_of(real)
    matrix, slope, offset = columns.product(node, weights, matrix, (Fraction(0),) * outputs)
    stream = builder.add(node.label, MatMul(builder.tensors[stream], matrix), [stream], node, output=node.outputs[0])
    if bias is not None:
        rows = np.broadcast_to(bias, (len(bias) if bias.ndim == 2 else 1, outputs))
        if len(rows) > 1:  # every result has its own bias, so every result becomes a channel
            stream = builder.flat(stream, node)
            slope, offset = slope * len(rows), offset * len(rows)
        offset = tuple(o + b for o, b in zip(offset, rows.reshape(-1), strict=True))
    builder.values[node.outputs[0]] = Real(stream, shape, np.arange(int(np.prod(shape))), slope, offset)
