"""Relu and Clip: bounds on the real numbers, absorbed by the QuantizeLinear that follows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from onnx_hw.onnx.model import Node
from onnx_hw.quantize.builder import Builder, Obstacle
from onnx_hw.quantize.lower.registry import lowers


@lowers("Relu")
def relu(builder: Builder, node: Node) -> None:
    builder.values[node.outputs[0]] = builder.real(node).clip(Fraction(0), None)


@lowers("Clip")
def clip(builder: Builder, node: Node) -> None:
    bounds: list[Fraction | None] = []
    for k, name in ((1, "min"), (2, "max")):
        bound = node.attributes.get(name)
        if len(node.inputs) > k and node.inputs[k]:
            array = builder.exact_constant(node.inputs[k])
            if array is None:
                raise Obstacle("clip-bounds", f"the {name} of a Clip must be a constant")
            bound = array.reshape(-1)[0]
        infinite = bound is None or (isinstance(bound, float) and not np.isfinite(bound))
        bounds.append(None if infinite else Fraction(bound))
    builder.values[node.outputs[0]] = builder.real(node).clip(*bounds)
