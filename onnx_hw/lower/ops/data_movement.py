"""Operators that move elements: cut them out, repeat them, put constants between them.

What goes where is asked of the operator itself: it is run on the numbers of the elements. A mere exchange of places
costs nothing until someone needs the elements in an order.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from onnx_hw.exact.rationals import fractions
from onnx_hw.lower.builder import Builder, Obstacle, Padded, T
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.lower.ops.resize_linear import interpolate
from onnx_hw.lower.values import FunctionValue, IntegerStream, Operand, Pending, QuantizedConstant, Real, Surrounded
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute


@lowers("Slice", "Split", "Gather", "Expand", "Tile", "DepthToSpace", "SpaceToDepth")
def move(builder: Builder, node: Node) -> None:
    """with constant indices and sizes"""
    if node.inputs[0] in builder.constants:
        _move_constant(builder, node)
        return
    value = builder.elements(node, partial=True)
    numbers = np.arange(value.where.size).reshape(value.shape)
    for name, origin in zip(node.outputs, _run(builder, node, numbers), strict=True):
        if name:
            builder.values[name] = placed(builder, node, value, origin, fill=0)


@lowers("Resize", "Upsample")
def resize(builder: Builder, node: Node) -> None:
    """mode = nearest; linear by whole factors, but for align_corners"""
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
    """with constant sizes"""
    result = node.outputs[0]
    mode = node.attributes.get("mode", "constant")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode != "constant":
        value = builder.elements(node, partial=True)
        numbers = np.arange(value.where.size).reshape(value.shape)
        (origin,) = _run(builder, node, numbers, omitted=2)
        builder.values[result] = placed(builder, node, value, origin, fill=0)
        return
    around = builder.operand(node)
    # the numbers are those of elements + 1, so that 0, which every version puts there, is nowhere
    numbers = np.arange(1, 1 + prod(around.shape)).reshape(around.shape)
    (origin,) = _run(builder, _with_value_0(node), numbers, omitted=2)
    origin = origin.astype(np.int64) - 1
    if (origin >= 0).all() and not isinstance(around, Pending):
        builder.values[result] = placed(builder, node, around, origin, fill=0)
        return
    fill = _fill(builder, node)
    integer = _integer_for(builder, around, fill)
    if integer is None or not isinstance(around, IntegerStream | Real):
        assert not isinstance(around, IntegerStream), "every integer stands for itself"
        builder.pending[result] = Surrounded(around, origin, fill)
        return
    made = builder.values[result] = placed(builder, node, around, origin, integer)
    pads = pads_of_image(origin, around.shape)
    if pads is not None and made.tensor != around.tensor:
        builder.padded[made.tensor] = Padded(around, pads, integer, origin.shape)


def moved_once_quantized(builder: Builder, node: Node) -> bool:
    """Whether a node moves the elements of a value that waits for a quantizer: then its results wait, too."""
    waiting = builder.pending.get(node.inputs[0])
    if waiting is None or not facts_of(node).moves:
        return False
    numbers = np.arange(prod(waiting.shape)).reshape(waiting.shape)
    for name, origin in zip(node.outputs, _run(builder, node, numbers), strict=True):
        if name:
            builder.pending[name] = Surrounded(waiting, origin, Fraction(0))
    return True


def pads_of_image(origin: np.ndarray, shape: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    """(top, left, bottom, right) where rows and columns of pixels were added around all of an image [1, channels, ...].

    Args:
        origin: flat index in the image of every element, or -1.
        shape: of the image.
    """
    if origin.ndim not in (3, 4) or len(origin) != 1 or not np.array_equal(origin[origin >= 0], np.arange(prod(shape))):
        return None
    inside = (origin >= 0)[0]
    if inside.ndim == 2:
        inside = inside[:, None, :]
    pixels = inside.any(axis=0)
    rows, columns = (pixels.any(axis=axis).nonzero()[0] for axis in (1, 0))
    box = np.zeros_like(pixels)
    box[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = True
    if (inside != box).any():
        return None
    height, width = box.shape
    return int(rows[0]), int(columns[0]), height - 1 - int(rows[-1]), width - 1 - int(columns[-1])


def _with_value_0(node: Node) -> Node:
    """A Pad without its value, which is an attribute before opset 11 and an input since."""
    attributes = {name: value for name, value in node.attributes.items() if name != "value"}
    return replace(node, attributes=attributes)


def _fill(builder: Builder, node: Node) -> Fraction | float:
    """A Pad's constant: exact, or infinite."""
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


def _integer_for(builder: Builder, value: IntegerStream | Operand, number: Fraction | float) -> int | None:
    """The integer on the stream of a value that stands for a number, if there is one."""
    if isinstance(number, float):
        return None
    if isinstance(value, IntegerStream):
        return int(number)
    if not isinstance(value, Real) or value.partial or value.clipped:
        return None
    lines = set(value.lines())
    slope, offset = lines.pop()
    if lines or slope == 0:
        return None
    integer, dtype = (number - offset) / slope, builder.integer_type(value)
    return int(integer) if integer.denominator == 1 and dtype.min <= integer <= dtype.max else None


def _run(builder: Builder, node: Node, numbers: np.ndarray, omitted: int | None = None) -> list[np.ndarray]:
    """The results of a node for the numbers of its data's elements."""
    arguments: list[Any] = [numbers]
    for k, name in enumerate(node.inputs[1:], start=1):
        given = name and k != omitted
        constant = builder.constant(name) if given else None
        if given and constant is None:
            raise Obstacle("not-constant", f"`{name}`, which says what {node.op_type} does, must be constant")
        arguments.append(constant)
    return [np.asarray(result) for result in compute(node, arguments)]


def placed(builder: Builder, node: Node, value: T, origin: np.ndarray, fill: int) -> T:
    """A value made of another's elements; nothing happens in hardware if each of them is there once."""
    flat, shape = origin.reshape(-1).astype(np.int64), origin.shape
    if flat.size == value.where.size and (np.bincount(flat[flat >= 0], minlength=flat.size) == 1).all():
        return replace(value, shape=shape, where=value.where[flat])
    if not isinstance(value, IntegerStream) and (flat >= 0).all() and (value.partial or _differs(builder, value)):
        return replace(value, shape=shape, where=value.where[flat], partial=True)
    return builder.moved(value, flat, shape, node, fill=fill)


def _differs(builder: Builder, value: Real | FunctionValue) -> bool:
    """Whether integers of several channels stand for different numbers: then only the quantized ones can move."""
    first, _ = builder.settled(value).range
    if isinstance(value, FunctionValue):
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
