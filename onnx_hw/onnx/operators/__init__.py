"""The meaning of ONNX operators in numpy: one small function per operator, whose signature is the schema.

This file is the table of contents. ``lookup(domain, op_type, version)`` finds an operator, ``operators()`` lists all.
"""

from onnx_hw.onnx.operators import (
    activation,  # Relu, Clip, Softmax ...
    arithmetic,  # Add, Sub, Mul, Div, Pow ...
    constant,  # Constant ...
    convolution,  # Conv
    matmul,  # MatMul, Gemm
    pooling,  # MaxPool, AveragePool ...
    quantization,  # QuantizeLinear, DequantizeLinear
    shape,  # Reshape, Transpose, Flatten, Squeeze ...
)
from onnx_hw.onnx.operators.registry import Call, Operator, lookup, operator_of, operators

__all__ = [
    "Call",
    "Operator",
    "activation",
    "arithmetic",
    "constant",
    "convolution",
    "lookup",
    "matmul",
    "operator_of",
    "operators",
    "pooling",
    "quantization",
    "shape",
]
