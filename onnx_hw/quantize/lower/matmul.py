"""MatMul and Gemm with constant weights."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from onnx_hw.onnx.model import Node
from onnx_hw.ops.matmul import MatMul
from onnx_hw.quantize.builder import Builder, Obstacle
from onnx_hw.quantize.lower.convolution import affine, dequantized, quantized_weights
from onnx_hw.quantize.lower.registry import Effect, lowers
from onnx_hw.quantize.values import QuantizedConstant, Real, fractions


@lowers("MatMul", effect=Effect.SUMS)
def matmul(builder: Builder, node: Node) -> None:
    """quantized data times a constant matrix"""
    weights = quantized_weights(builder, node, 1)
    if weights.integers.ndim != 2:
        raise Obstacle("weights-rank", f"the weights must be a matrix, not {list(weights.integers.shape)}")
    _product(builder, node, _transposed(weights), None)


@lowers("Gemm", effect=Effect.SUMS)
def gemm(builder: Builder, node: Node) -> None:
    """quantized data times a constant matrix; transA = 0, alpha positive"""
    attributes = node.attributes
    if attributes.get("transA", 0):
        raise Obstacle("gemm-transa", "transA must be 0: the data is one row")
    weights = quantized_weights(builder, node, 1)
    if not attributes.get("transB", 0):
        weights = _transposed(weights)
    (alpha,) = fractions(np.asarray(attributes.get("alpha", 1.0), dtype=np.float32))
    if alpha <= 0:
        raise Obstacle("gemm-alpha", f"alpha must be positive, not {float(alpha)}")
    weights = replace(weights, scale=tuple(alpha * s for s in weights.scale))
    bias = None
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = builder.exact_constant(node.inputs[2])
        if bias is None:
            raise Obstacle("bias-not-constant", f"the bias `{node.inputs[2]}` must be constant")
        if bias.ndim == 2 and len(bias) > 1:
            raise Obstacle("bias-per-row", f"the bias must be the same for all rows, not {list(bias.shape)}")
        (beta,) = fractions(np.asarray(attributes.get("beta", 1.0), dtype=np.float32))
        bias = bias.reshape(-1) * beta
    _product(builder, node, weights, bias)


def _transposed(weights: QuantizedConstant) -> QuantizedConstant:
    """(in, out) to (out, in)."""
    return QuantizedConstant(weights.integers.T, weights.scale, 1 - weights.axis)


def _product(builder: Builder, node: Node, weights: QuantizedConstant, bias: np.ndarray | None) -> None:
    """``data · weightsᵀ + bias`` for weights (outputs, inputs) and a bias (outputs,) or (1,)."""
    real, zero_point = dequantized(builder, node)
    if len(weights.scale) > 1 and weights.axis != 0:
        raise Obstacle("weight-axis", "scales of weights must be per output, not per input")
    outputs, inputs = weights.integers.shape
    shape = builder.shape(node.outputs[0])
    if real.where.size == inputs:
        stream, order = builder.vector(real, node)
        matrix = weights.integers[:, order]
    else:  # the same weights for every row of the data: rows are pixels
        real = builder.rows(real, inputs, node)
        stream, matrix = real.tensor, weights.integers
    stream = builder.add(node.label, MatMul(builder.tensors[stream], matrix), [stream], node, output=node.outputs[0])
    flat = np.zeros(outputs, dtype=object) if bias is None else np.broadcast_to(bias, outputs)
    slope, offset = affine(real.slope[0], zero_point, weights, matrix, tuple(Fraction(b) for b in flat))
    builder.values[node.outputs[0]] = Real(stream, shape, np.arange(int(np.prod(shape))), slope, offset)
