"""Weights with a scale per input become floats, which get integers of their own: their sums are no sums of integers.

onnxruntime's quantizer gives the last axis of a constant on the left of a product, such as the adjacency of a graph, a
scale for each of its columns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect


def free_weights_with_scales_per_input(model: Model) -> Model:
    """Return the same folded model with constants in floats in place of such weights; the same object without any."""
    graph = model.graph
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    added, nodes = Additions(graph), list[Node]()
    for node in graph.nodes:
        facts = facts_of(node)
        if facts.effect is Effect.SUMS and facts.weights is not None and facts.weights.rank == 2:
            at = facts.weights.at
            name = node.inputs[at]
            scales = _numbers(graph, makers, name, of_ones=True)
            if scales is not None and scales.ndim == 2:
                inputs = 1 - facts.weights.axis_of_outputs(node, 2)
                if not (scales == np.take(scales, [0], axis=inputs)).all():
                    numbers = _numbers(graph, makers, name)
                    assert numbers is not None
                    constant = added.constant(f"{name}/numbers", numbers, graph.values[name].element_type)
                    node = replace(node, inputs=(*node.inputs[:at], constant, *node.inputs[at + 1 :]))
        nodes.append(node)
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return model
    return replace(model, graph=added.graph(nodes))


def _numbers(graph: Graph, makers: dict[str, Node], name: str, *, of_ones: bool = False) -> np.ndarray | None:
    """Return the numbers of integers of a constant that a DequantizeLinear scales, perhaps moved; None for others.

    Args:
        of_ones: return those of ones without a zero point instead, which are the scales.
    """
    node = makers.get(name)
    if node is None or len(node.outputs) != 1 or any(read not in graph.constants for read in node.inputs[1:] if read):
        return None
    facts, others = facts_of(node), [graph.constants[read] if read else None for read in node.inputs[1:]]
    if facts.effect is Effect.DEQUANTIZES and node.inputs[0] in graph.constants:
        first: np.ndarray | None = graph.constants[node.inputs[0]]
        if of_ones:
            first, others = np.ones_like(first), others[:1]
    elif facts.moves:
        first = _numbers(graph, makers, node.inputs[0], of_ones=of_ones)
    else:
        return None
    if first is None:
        return None
    try:
        (result,) = compute(node, [first, *others])
    except UserError:
        return None
    return np.asarray(result)
