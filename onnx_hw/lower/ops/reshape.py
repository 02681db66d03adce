"""Operators that only change shapes: nothing moves in hardware."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.onnx.graph.model import Node


@lowers("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")
def reshape(builder: Builder, node: Node) -> None:
    """Change the layout only; elements move where a later node needs another order."""
    if node.op_type == "Dropout":
        _check_dropout(builder, node)
    shape = builder.shape(node.outputs[0])
    if node.inputs[0] in builder.constants:
        constant = builder.constants[node.inputs[0]]
        axis = _axis_after(constant, shape) if len(constant.scale) > 1 else 0
        builder.constants[node.outputs[0]] = QuantizedConstant(constant.stored.reshape(shape), constant.scale, axis)
        return
    builder.values[node.outputs[0]] = replace(builder.elements(node, partial=True), shape=shape)


def _check_dropout(builder: Builder, node: Node) -> None:
    """Raise ``Obstacle`` where a Dropout is in training mode, or its mask is read; else it changes nothing."""
    if len(node.outputs) > 1 and node.outputs[1] and builder.is_read(node.outputs[1]):
        raise Obstacle("dropout-mask", "the mask of a Dropout cannot be an output in hardware")
    if node.version < 7:
        training = not node.attributes.get("is_test", 0)
    else:
        mode = node.inputs[2] if len(node.inputs) > 2 else ""
        constant = builder.constant(mode)
        training = bool(mode) and (constant is None or bool(np.any(constant)))
    if training:
        raise Obstacle("dropout-training", "a Dropout must not be in training mode", "export the model for inference")


def _axis_after(constant: QuantizedConstant, shape: tuple[int, ...]) -> int:
    """Return the axis of the scales after a reshape: it has the same length and the same number of elements behind it.

    Raises:
        Obstacle: There is no such axis.
    """
    before, behind = constant.shape, int(np.prod(constant.shape[constant.axis + 1 :]))
    for axis, length in enumerate(shape):
        if length == before[constant.axis] and int(np.prod(shape[axis + 1 :])) == behind:
            return axis
    raise Obstacle(
        "constant-layout", f"the reshape of a constant must keep the axis of its {len(constant.scale)} scales"
    )


@lowers("Transpose")
def transpose(builder: Builder, node: Node) -> None:
    """Change the layout only; elements move where a later node needs another order."""
    name = node.inputs[0]
    rank = len(builder.shape(name))
    axes = tuple(int(axis) for axis in node.attributes.get("perm", range(rank)[::-1]))
    if name in builder.constants:
        constant = builder.constants[name]
        integers = constant.stored.transpose(axes)
        axis = axes.index(constant.axis) if len(constant.scale) > 1 else 0
        builder.constants[node.outputs[0]] = QuantizedConstant(integers, constant.scale, axis)
        return
    value = builder.elements(node, partial=True)
    where = np.ascontiguousarray(value.where.reshape(value.shape).transpose(axes)).reshape(-1)
    builder.values[node.outputs[0]] = replace(value, shape=tuple(value.shape[a] for a in axes), where=where)
