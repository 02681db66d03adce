"""Operators that move elements: they cut elements out, repeat them, or put constants between them.

The operator itself computes the movement: it runs on the indices of the elements. A permutation costs nothing until an
operator needs the elements in a certain order.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from onnx_hw.exact.rationals import fractions
from onnx_hw.lower.builder import Builder, PaddedImage
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.ops.resize_linear import interpolate
from onnx_hw.lower.values.constant import QuantizedConstant
from onnx_hw.lower.values.padded import PendingPad, pads_of_image
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute


@lowers("Slice", "Split", "Gather", "Expand", "Tile", "DepthToSpace", "SpaceToDepth")
def move(builder: Builder, node: Node) -> None:
    """Accept constant indices and sizes."""
    if node.inputs[0] in builder.constants:
        _move_constant(builder, node)
        return
    value = builder.elements(node, partial=True)
    indices = np.arange(value.where.size).reshape(value.shape)
    for name, origin in zip(node.outputs, _run(builder, node, indices), strict=True):
        if name:
            builder.values[name] = builder.placed(value, origin, node)


@lowers("Resize", "Upsample")
def resize(builder: Builder, node: Node) -> None:
    """Accept the mode nearest, and the mode linear of images without antialias; align_corners before a product."""
    mode = node.attributes.get("mode", "nearest")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode in ("linear", "bilinear"):
        interpolate(builder, node)
        return
    if mode != "nearest":
        raise Obstacle("resize-mode", f"the mode of {node.op_type} must be nearest or linear, not {mode}")
    if node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Obstacle("resize-mode", "the coordinates of a Resize must not be tf_crop_and_resize")
    move(builder, node)


@lowers("Pad", "CenterCropPad")
def pad(builder: Builder, node: Node) -> None:
    """Accept constant sizes."""
    result = node.outputs[0]
    mode = node.attributes.get("mode", "constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode != "constant":
        value = builder.elements(node, partial=True)
        indices = np.arange(value.where.size).reshape(value.shape)
        (origin,) = _run(builder, node, indices, omitted=2)
        builder.values[result] = builder.placed(value, origin, node)
        return
    operand = builder.operand(node)
    # indices count from 1, so that 0, the default value of every version, marks a pad
    indices = np.arange(1, 1 + prod(operand.shape)).reshape(operand.shape)
    (origin,) = _run(builder, _with_value_0(node), indices, omitted=2)
    origin = origin.astype(np.int64) - 1
    stream = builder.values.get(node.inputs[0]) if not operand.is_pending else None
    if stream is not None and (origin >= 0).all():
        builder.values[result] = builder.placed(stream, origin, node)
        return
    fill = _fill(builder, node)
    integer = operand.integer_for(builder, fill)
    if stream is None or integer is None:
        assert not operand.is_integers, "every integer stands for itself"
        builder.pending[result] = PendingPad(operand, origin, fill)
        return
    padded = builder.values[result] = builder.placed(stream, origin, node, fill=integer)
    pads = pads_of_image(origin, stream.shape)
    if pads is not None and padded.tensor != stream.tensor:
        builder.padded[padded.tensor] = PaddedImage(stream, pads, integer, origin.shape)


def move_pending(builder: Builder, node: Node) -> bool:
    """Move the elements of a value that waits for a quantizer, so that the results wait, too.

    Returns:
        Whether the node's input waits for a quantizer and the node moves elements; otherwise nothing is done.
    """
    pending = builder.pending.get(node.inputs[0])
    if pending is None or not facts_of(node).moves:
        return False
    indices = np.arange(prod(pending.shape)).reshape(pending.shape)
    for name, origin in zip(node.outputs, _run(builder, node, indices), strict=True):
        if name:
            builder.pending[name] = PendingPad(pending, origin, Fraction(0))
    return True


def _with_value_0(node: Node) -> Node:
    """Return a Pad without the attribute ``value``, which is an input since opset 11."""
    attributes = {name: value for name, value in node.attributes.items() if name != "value"}
    return replace(node, attributes=attributes)


def _fill(builder: Builder, node: Node) -> Fraction | float:
    """Return the constant of a Pad, exact or infinite."""
    number: Any = node.attributes.get("value", 0)
    if len(node.inputs) > 2 and node.inputs[2]:
        name = node.inputs[2]
        array = builder.constants[name].exact() if name in builder.constants else builder.constant(name)
        if array is None:
            raise Obstacle("pad-value", "the value of a Pad must be constant")
        number = array.reshape(-1)[0] if array.size else 0
    if isinstance(number, Fraction):
        return number
    return float(number) if np.isinf(number) else fractions(np.array(number))[0]


def _run(builder: Builder, node: Node, data: np.ndarray, omitted: int | None = None) -> list[np.ndarray]:
    """Return the results of a node for other data.

    Args:
        data: first argument of the node, for example the indices of the elements.
        omitted: number of an input that the node runs without; None for no such input.

    Raises:
        Obstacle: Another input is not constant.
    """
    arguments: list[Any] = [data]
    for k, name in enumerate(node.inputs[1:], start=1):
        is_present = name and k != omitted
        constant = builder.constant(name) if is_present else None
        if is_present and constant is None:
            raise Obstacle("not-constant", f"`{name}`, an input of {node.op_type}, must be constant")
        arguments.append(constant)
    return [np.asarray(result) for result in compute(node, arguments)]


def _move_constant(builder: Builder, node: Node) -> None:
    """Move the elements of a quantized constant with one scale, like data."""
    constant = builder.constants[node.inputs[0]]
    if len(constant.scale) > 1:
        raise Obstacle("constant-layout", f"a constant must have one scale to pass through {node.op_type}")
    for name, integers in zip(node.outputs, _run(builder, node, constant.integers), strict=True):
        if name:
            builder.constants[name] = QuantizedConstant(integers, constant.scale)
