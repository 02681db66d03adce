"""Operators that only rename positions: nothing moves in hardware."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.onnx.model import Node
from onnx_hw.quantize.builder import Builder, Obstacle
from onnx_hw.quantize.lower.registry import lowers
from onnx_hw.quantize.values import QuantizedConstant


@lowers("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")
def reshape(builder: Builder, node: Node) -> None:
    if node.op_type == "Dropout" and len(node.outputs) > 1 and node.outputs[1]:
        raise Obstacle("dropout-mask", "the mask of a Dropout cannot be an output in hardware")
    shape = builder.shape(node.outputs[0])
    if node.inputs[0] in builder.constants:
        constant = builder.constants[node.inputs[0]]
        if len(constant.scale) > 1:
            raise Obstacle("constant-layout", "a constant with a scale per channel must not be reshaped")
        builder.constants[node.outputs[0]] = replace(constant, integers=constant.integers.reshape(shape))
        return
    builder.values[node.outputs[0]] = replace(builder.values[node.inputs[0]], shape=shape)


@lowers("Transpose")
def transpose(builder: Builder, node: Node) -> None:
    name = node.inputs[0]
    rank = builder.constants[name].integers.ndim if name in builder.constants else len(builder.values[name].shape)
    axes = tuple(int(axis) for axis in node.attributes.get("perm", range(rank)[::-1]))
    if name in builder.constants:
        constant = builder.constants[name]
        turned = constant.integers.transpose(axes)
        builder.constants[node.outputs[0]] = QuantizedConstant(turned, constant.scale, axes.index(constant.axis))
        return
    value = builder.values[name]
    where = np.ascontiguousarray(value.where.reshape(value.shape).transpose(axes)).reshape(-1)
    builder.values[node.outputs[0]] = replace(value, shape=tuple(value.shape[a] for a in axes), where=where)
