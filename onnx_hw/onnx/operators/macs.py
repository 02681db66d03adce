"""Number of multiply-accumulates of a node: functions of the node and of the types of its inputs and results.

A product counts whether or not a factor lies in the padding, as is usual.
"""

from __future__ import annotations

from math import prod

from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.facts import Macs
from onnx_hw.onnx.operators.tensor_type import TensorType, Types


def window_macs(weights: int) -> Macs:
    """Count those of windows: a result sums all weights of its output; weights (outputs, ...) are input ``at``."""

    def macs(_: Node, inputs: Types, results: Types) -> int:
        w = known_type(inputs, weights)
        return known_type(results, 0).size * prod(w.shape[1:])

    return macs


def scattered_macs(_: Node, inputs: Types, __: Types) -> int:
    """Count those of windows that are written: each element of the data meets all weights of its input channel."""
    return known_type(inputs, 0).size * prod(known_type(inputs, 1).shape[1:])


def matrix_macs(node: Node, inputs: Types, results: Types) -> int:
    """Count those of a matrix product with the first input, or its transpose where ``transA`` says so."""
    shape = list(known_type(inputs, 0).shape)
    if node.attributes.get("transBatchA", 0) and len(shape) > 2:
        shape = [*shape[1:-1], shape[0], shape[-1]]
    turned = bool(node.attributes.get("transA", 0)) and len(shape) > 1
    return known_type(results, 0).size * shape[-2 if turned else -1]


def known_type(types: Types, at: int) -> TensorType:
    """Return a type that the caller has checked to be known."""
    tensor_type = types[at]
    assert tensor_type is not None
    return tensor_type
