"""Operators that move elements: cut them out, repeat them, put constants between them.

What goes where is asked of the operator itself: it is run on the numbers of the elements. A mere exchange of places
costs nothing until someone needs the elements in an order.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from onnx_hw.onnx.model import Node
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.quantize.builder import Builder, Obstacle, Padded, T
from onnx_hw.quantize.lower.registry import Effect, lowers
from onnx_hw.quantize.values import Function, Integers, QuantizedConstant, Real


@lowers("Slice", "Split", "Gather", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", effect=Effect.KEEPS)
def move(builder: Builder, node: Node) -> None:
    """with constant indices and sizes"""
    if node.inputs[0] in builder.constants:
        _move_constant(builder, node)
        return
    value = builder.elements(node, partial=True)
    numbers = np.arange(value.where.size).reshape(value.shape)
    for name, origin in zip(node.outputs, _run(builder, node, numbers), strict=True):
        if name:
            builder.values[name] = _placed(builder, node, value, origin, fill=0)


@lowers("Resize", "Upsample", effect=Effect.KEEPS)
def resize(builder: Builder, node: Node) -> None:
    """mode = nearest"""
    mode = node.attributes.get("mode", "nearest")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode != "nearest":
        raise Obstacle("resize-mode", f"the mode of {node.op_type} must be nearest, not {mode}")
    if node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise Obstacle("resize-mode", "the coordinates of a Resize must not be tf_crop_and_resize")
    move(builder, node)


@lowers("Pad", "CenterCropPad", effect=Effect.KEEPS)
def pad(builder: Builder, node: Node) -> None:
    """with constant sizes"""
    value = builder.data(node)
    numbers = np.arange(value.where.size).reshape(value.shape)
    mode = node.attributes.get("mode", "constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode != "constant":
        (origin,) = _run(builder, node, numbers)
        builder.values[node.outputs[0]] = _placed(builder, node, value, origin, fill=0)
        return
    fill = _fill(builder, node, value)
    # the numbers are those of elements + 1, so that 0, which every version puts there, is nowhere
    (origin,) = _run(builder, _with_value_0(node), numbers + 1, omitted=2)
    result = builder.values[node.outputs[0]] = _placed(builder, node, value, origin - 1, fill)
    pads = _pads_of_image(origin - 1)
    if pads is not None and result.tensor != value.tensor:
        builder.padded[result.tensor] = Padded(value, pads, fill, origin.shape)


def _pads_of_image(origin: np.ndarray) -> tuple[int, int, int, int] | None:
    """(top, left, bottom, right) where whole rows and columns of pixels were added around [1, channels, ...]."""
    if origin.ndim not in (3, 4) or len(origin) != 1:
        return None
    inside = (origin >= 0)[0]
    if inside.ndim == 2:
        inside = inside[:, None, :]
    pixels = inside.any(axis=0)
    rows, columns = (pixels.any(axis=axis).nonzero()[0] for axis in (1, 0))
    box = np.zeros_like(pixels)
    box[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    if (inside != box).any() or (np.diff(origin[origin >= 0]) != 1).any():
        return None
    height, width = box.shape
    return int(rows[0]), int(columns[0]), height - 1 - int(rows[-1]), width - 1 - int(columns[-1])


def _with_value_0(node: Node) -> Node:
    """A Pad without its value, which is an attribute before opset 11 and an input since."""
    attributes = {name: value for name, value in node.attributes.items() if name != "value"}
    return replace(node, attributes=attributes)


def _fill(builder: Builder, node: Node, value: Integers | Real) -> int:
    """The integer that stands for a Pad's constant."""
    constant = node.attributes.get("value", 0)
    if len(node.inputs) > 2 and node.inputs[2]:
        array = builder.exact_constant(node.inputs[2])
        if array is None:
            raise Obstacle("pad-value", "the value of a Pad must be constant")
        constant = array.reshape(-1)[0] if array.size else 0
    if isinstance(value, Integers):
        return int(constant)
    if value.clipped or len(set(value.slope)) != 1 or len(set(value.offset)) != 1 or value.slope[0] == 0:
        raise Obstacle("pad-value", f"the data `{node.inputs[0]}` of a Pad must be quantized")
    integer = (Fraction(constant) - value.offset[0]) / value.slope[0]
    if integer.denominator != 1:
        raise Obstacle("pad-value", f"no integer of `{node.inputs[0]}` stands for the Pad's value {float(constant):g}")
    return int(integer)


def _run(builder: Builder, node: Node, numbers: np.ndarray, omitted: int | None = None) -> list[np.ndarray]:
    """The results of a node for the numbers of its data's elements."""
    arguments: list[Any] = [numbers]
    for k, name in enumerate(node.inputs[1:], start=1):
        constant = builder.constant(name) if name else None
        if name and constant is None:
            raise Obstacle("not-constant", f"`{name}`, which says what {node.op_type} does, must be constant")
        arguments.append(None if k == omitted else constant)
    return [np.asarray(result) for result in compute(node, arguments)]


def _placed(builder: Builder, node: Node, value: T, origin: np.ndarray, fill: int) -> T:
    """A value made of another's elements; nothing happens in hardware if each of them is there once."""
    flat, shape = origin.reshape(-1).astype(np.int64), origin.shape
    if flat.size == value.where.size and (np.bincount(flat[flat >= 0], minlength=flat.size) == 1).all():
        return replace(value, shape=shape, where=value.where[flat])
    if not isinstance(value, Integers) and (flat >= 0).all() and (value.partial or _differs(builder, value)):
        return replace(value, shape=shape, where=value.where[flat], partial=True)
    return builder.moved(value, flat, shape, node, fill=fill)


def _differs(builder: Builder, value: Real | Function) -> bool:
    """Whether integers of several channels stand for different numbers: then only the quantized ones can move."""
    first, _ = builder.settled(value).range
    if isinstance(value, Function):
        return len(value.numbers(np.array([[first]]))) > 1
    return len(set(value.slope)) > 1 or len(set(value.offset)) > 1


def _move_constant(builder: Builder, node: Node) -> None:
    """A quantized constant with one scale moves like data."""
    constant = builder.constants[node.inputs[0]]
    if len(constant.scale) > 1:
        raise Obstacle("constant-layout", f"a constant must have one scale to pass through {node.op_type}")
    for name, integers in zip(node.outputs, _run(builder, node, constant.integers), strict=True):
        if name:
            builder.constants[name] = QuantizedConstant(integers, constant.scale)
