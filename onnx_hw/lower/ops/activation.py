"""Relu and Clip: bounds on the real numbers, absorbed by the QuantizeLinear that follows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.exact.rationals import fractions
from onnx_hw.lower.builder import Builder
from onnx_hw.lower.obstacle import Obstacle
from onnx_hw.lower.ops.registry import lowers
from onnx_hw.onnx.graph.model import Node


@lowers("Relu")
def relu(builder: Builder, node: Node) -> None:
    _bound(builder, node, Fraction(0), None)


@lowers("Clip")
def clip(builder: Builder, node: Node) -> None:
    """Accept constant bounds."""
    _bound(builder, node, *bounds_of(builder, node))


def bounds_of(builder: Builder, node: Node) -> tuple[Fraction | None, Fraction | None]:
    """Return the least and the greatest number that a Clip lets pass; None where it has no bound.

    Raises:
        Obstacle: A bound is not constant, or not one number.
    """
    bounds: list[Fraction | None] = []
    for k, name in ((1, "min"), (2, "max")):
        bound: float | None = node.attributes.get(name)
        if len(node.inputs) > k and node.inputs[k]:
            array = builder.constant(node.inputs[k])
            if array is None or array.size != 1:
                raise Obstacle("clip-bounds", f"the {name} of a Clip must be one constant number")
            bound = float(array.reshape(-1)[0])
        unbounded = bound is None or bound == (-np.inf if name == "min" else np.inf)
        bounds.append(None if unbounded else fractions(np.array(bound))[0])
    low, high = bounds
    return low, high


def _bound(builder: Builder, node: Node, low: Fraction | None, high: Fraction | None) -> None:
    builder.define(node.outputs[0], builder.numbers(node).clip(low, high))
