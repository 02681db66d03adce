"""Operators of com.microsoft that onnxruntime's optimizer writes: several operators fused into one.

Specification: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.operators.activation import Gelu, LeakyRelu, Relu, Sigmoid, Tanh, sigmoid
from onnx_hw.onnx.operators.convolution import Conv, conv_type, conv_window
from onnx_hw.onnx.operators.dtypes import Array, widen
from onnx_hw.onnx.operators.facts import Facts, Weights
from onnx_hw.onnx.operators.macs import matrix_macs, window_macs
from onnx_hw.onnx.operators.matmul import Gemm, MatMul, gemm_type, matmul_shape, product
from onnx_hw.onnx.operators.registry import Floats, operator
from onnx_hw.onnx.operators.tensor_type import TensorType, broadcast_shape, like_first

_DOMAIN = "com.microsoft"


def fused_conv_type(
    x: TensorType, w: TensorType, b: TensorType | None = None, _: TensorType | None = None, **attributes: Any
) -> TensorType:
    return conv_type(x, w, b, **attributes)


@operator(
    since=1,
    domain=_DOMAIN,
    types=fused_conv_type,
    attributes_of=conv_window,
    facts=Facts(macs=window_macs(1), weights=Weights(1, axis=0, channel=1)),
)
def FusedConv(
    x: Array,
    w: Array,
    b: Array | None = None,
    z: Array | None = None,
    *,
    activation: str = "",
    activation_params: Floats = (),
    **attributes: Any,
) -> Array:
    """Apply Conv, add ``z``, then apply an activation."""
    y = Conv(x, w, b, **attributes)
    return apply_activation(y if z is None else y + z, activation, activation_params)


def fused_gemm_type(
    a: TensorType, b: TensorType, c: TensorType | None = None, *, transA: int = 0, transB: int = 0, **_: Any
) -> TensorType:
    return gemm_type(a, b, c, transA=transA, transB=transB)


@operator(
    since=1,
    domain=_DOMAIN,
    types=fused_gemm_type,
    facts=Facts(macs=matrix_macs, weights=Weights(1, axis=-1, channel=-1, rank=2, turned="transB")),
)
def FusedGemm(
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Array:
    """Apply Gemm, then an activation."""
    stated = (activation_alpha, activation_beta, activation_gamma)
    parameters = tuple(value for value in stated if value is not None)
    return apply_activation(Gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB), activation, parameters)


def fused_matmul_type(a: TensorType, b: TensorType, **attributes: Any) -> TensorType:
    sides = (("transA", "transBatchA"), ("transB", "transBatchB"))
    shapes = [
        tuple(x.shape[axis] for axis in fused_order(x.ndim, attributes.get(last, 0), attributes.get(batch, 0)))
        for x, (last, batch) in zip((a, b), sides, strict=True)
    ]
    return TensorType(a.dtype, matmul_shape(*shapes))


@operator(
    since=1,
    domain=_DOMAIN,
    types=fused_matmul_type,
    facts=Facts(macs=matrix_macs, weights=Weights(1, axis=-1, channel=-1, rank=2, turned="transB")),
)
def FusedMatMul(
    a: Array,
    b: Array,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Array:
    """Apply MatMul to transposed operands; ``transBatch`` moves the first axis before the last but one."""
    left = a.transpose(fused_order(a.ndim, transA, transBatchA))
    right = b.transpose(fused_order(b.ndim, transB, transBatchB))
    return (product(left, right) * alpha).astype(a.dtype) if alpha != 1 else MatMul(left, right)


def fused_order(rank: int, last: int, batch: int) -> list[int]:
    """Return the axes of an operand of FusedMatMul as the product sees it, by its ``transX`` and ``transBatchX``."""
    order = list(range(rank))
    if batch and rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if last and rank > 1:
        order[-2:] = order[:-3:-1]
    return order


@operator(since=1, domain=_DOMAIN, types=like_first)
def Gelu_microsoft(x: Array) -> Array:
    return Gelu(x)


def bias_type(x: TensorType, b: TensorType) -> TensorType:
    return TensorType(x.dtype, broadcast_shape(x, b))


@operator(since=1, domain=_DOMAIN, types=bias_type)
def BiasGelu(x: Array, b: Array) -> Array:
    return Gelu(x + b)


@operator(since=1, domain=_DOMAIN, types=like_first)
def FastGelu(x: Array, b: Array | None = None) -> Array:
    """Apply the approximation of Gelu by a hyperbolic tangent."""
    return Gelu(x if b is None else x + b, approximate="tanh")


@operator(since=1, domain=_DOMAIN, types=like_first)
def QuickGelu(x: Array, *, alpha: float = 1.7020000219345093) -> Array:
    """Return ``x * sigmoid(alpha * x)``."""
    wide = widen(x)
    return (wide * sigmoid(wide * wide.dtype.type(alpha))).astype(x.dtype, copy=False)


def apply_activation(x: Array, activation: str, parameters: Floats) -> Array:
    """Apply the activation that was fused into another operator; raise ``ValueError`` for an unknown one."""
    if activation in ("", "Relu", "Tanh", "Sigmoid"):
        return {"": lambda y: y, "Relu": Relu, "Tanh": Tanh, "Sigmoid": Sigmoid}[activation](x)
    if activation == "LeakyRelu":
        return LeakyRelu(x, alpha=parameters[0] if parameters else 0.01)
    if activation == "Clip" and len(parameters) == 2:
        return np.clip(x, x.dtype.type(parameters[0]), x.dtype.type(parameters[1]))
    if activation == "HardSigmoid" and len(parameters) == 2:
        return np.clip(x * x.dtype.type(parameters[0]) + x.dtype.type(parameters[1]), 0, 1).astype(x.dtype)
    raise ValueError(f"activation must be Relu, Tanh, Sigmoid, LeakyRelu, Clip or HardSigmoid, not {activation}")
