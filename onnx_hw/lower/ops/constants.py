"""Constant operands of data: one value, or one per channel of the stream.

Before opset 7 an attribute gave the axes of the shorter operand; since then they are the last axes.
"""

from __future__ import annotations

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.onnx.graph.model import Node


def is_constant(builder: Builder, name: str) -> bool:
    """Return whether a value is a constant, plain or quantized."""
    return builder.constant(name) is not None or name in builder.constants


def scaled_constant(builder: Builder, node: Node, inverse: bool) -> QuantizedConstant:
    """Return the product of a quantized constant and another constant: one number, or one per index of an axis.

    Args:
        inverse: whether the second operand is a divisor.

    Raises:
        Obstacle: A divisor is 0 or the quantized constant, or the result's scales would not lie along one axis.
    """
    k = 0 if node.inputs[0] in builder.constants else 1
    data, factors = builder.constants[node.inputs[k]], builder.exact_constant(node.inputs[1 - k])
    assert factors is not None, "both operands are constant"
    if inverse and (k == 1 or not factors.all()):
        raise Obstacle("division", "a constant must be divided by a constant other than 0")
    factors = np.asarray(1 / factors if inverse else factors, dtype=object)
    shape = (1,) * (data.stored.ndim - factors.ndim) + factors.shape
    axes = [k for k, length in enumerate(shape) if length > 1]
    fits = len(shape) == data.stored.ndim and all(shape[k] == data.shape[k] for k in axes)
    if not fits or len(axes) > 1 or (axes and len(data.scale) > 1 and data.axis != axes[0]):
        raise Obstacle(
            "weight-axis", f"a quantized constant must be scaled along one axis, not by {list(factors.shape)}"
        )
    numbers = tuple(factors.reshape(-1))
    size = max(len(numbers), len(data.scale))
    per_index = (values * size if len(values) == 1 else values for values in (data.scale, numbers))
    signs = np.array([-1 if number < 0 else 1 for number in numbers]).reshape(shape)
    scale = tuple(step * abs(number) for step, number in zip(*per_index, strict=True))
    return QuantizedConstant(data.integers * signs, scale, axes[0] if axes else data.axis)


def aligned(node: Node, constant: np.ndarray, rank: int) -> np.ndarray:
    """Return a constant whose axes begin at the attribute ``axis`` of an operator before opset 7, where it has one.

    Args:
        rank: number of the data's axes.
    """
    if "axis" not in node.attributes:
        return constant
    axis = int(node.attributes["axis"]) % rank
    return constant.reshape(constant.shape + (1,) * (rank - axis - constant.ndim))
