"""Biases of products, separated from them: one constant per product, added output by output.

    Conv(x, W, b) + t   becomes   Conv(x, W, 0) + (b + t)

So each product has one bias term, whatever the operator calls it, and bias correction may change it. ``post_training``
calls this before integers are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.dependencies import readers_of
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.evaluate import compute
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.quantization.scheme import MAX_SCALES

VERSION = 13
"""Opset of the inserted Add."""


@dataclass(frozen=True)
class BiasTerm:
    """Bias term behind a product.

    Attributes:
        name: name of the constant, which is broadcast to the result: one number per output.
        axis: axis of the result along which the outputs lie.
    """

    name: str
    axis: int


def separate_biases(model: Model) -> tuple[Model, dict[str, BiasTerm]]:
    """Return the same function with one bias term behind every product with constant weights, and the terms.

    The terms are named by the product's result.

    Args:
        model: folded; its floats are float32.
    """
    graph = model.graph
    added, readers, outputs = Additions(graph), readers_of(graph.nodes), {value.name for value in graph.outputs}
    nodes, gone, terms = list[Node](), set[str](), dict[str, BiasTerm]()
    for node in graph.nodes:
        if node.outputs and node.outputs[0] in gone:
            continue
        term = _term_of(node, graph)
        if term is None:
            nodes.append(node)
            continue
        result = node.outputs[0]
        place = facts_of(node).weights
        assert place is not None
        axis = place.channel % term.ndim
        while result not in outputs and len(readers.get(result, ())) == 1:
            more = _addition(readers[result][0], result, graph, term.shape)
            if more is None:
                break
            term, result = term + more, readers[result][0].outputs[0]
            gone.add(result)
        like = graph.values[node.outputs[0]]
        sums = added.value(f"{result}/sums", like)
        inputs = list(node.inputs)
        if len(inputs) > 2 and inputs[2]:
            none = np.zeros_like(graph.constants[inputs[2]])
            inputs[2] = added.constant(f"{result}/none", none, like.element_type)
        name = added.constant(f"{result}/term", term.astype(np.float32), like.element_type)
        nodes.append(replace(node, name=node.label, inputs=tuple(inputs), outputs=(sums,)))
        nodes.append(Node("", "Add", "", VERSION, (sums, name), (result,)))
        terms[sums] = BiasTerm(name, axis)
    return replace(model, graph=added.graph(nodes)), terms


def _term_of(node: Node, graph: Graph) -> np.ndarray | None:
    """Return the bias of a product, float64, one number per output, with the axes of its result; else None."""
    facts = facts_of(node)
    place = facts.weights if facts.effect is Effect.SUMS else None
    if place is None or len(node.outputs) != 1 or node.inputs[place.at] not in graph.constants:
        return None
    data, result = graph.values.get(node.inputs[0]), graph.values.get(node.outputs[0])
    constant = all(name in graph.constants for name in node.inputs[1:] if name)
    weights = graph.constants[node.inputs[place.at]]
    if place.at == 0 or not constant or place.rank not in (None, weights.ndim) or data is None or result is None:
        return None
    sizes = [size for size in data.shape or () if isinstance(size, int)]
    if not sizes or len(sizes) != len(data.shape or ()) or weights.dtype != np.float32:
        return None
    zeros = np.zeros(sizes, dtype=np.float32)
    try:
        (bias,) = compute(node, [zeros, *(graph.constants[n] if n else None for n in node.inputs[1:])])
    except UserError:
        return None
    if bias.ndim < 2:
        return None
    axis = place.channel % bias.ndim
    others = tuple(k for k in range(bias.ndim) if k != axis)
    if not bias.size or not np.isfinite(bias).all() or (bias.min(axis=others) != bias.max(axis=others)).any():
        return None
    if bias.size > MAX_SCALES and not bias.any():
        return None  # a correction for each output would take more memory than the weights
    return np.asarray(bias.max(axis=others, keepdims=True), dtype=np.float64)


def _addition(node: Node, data: str, graph: Graph, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return what a node adds to data, broadcast to the shape of a bias; None if it does something else."""
    if facts_of(node).effect is not Effect.ADDS or len(node.inputs) != 2 or "axis" in node.attributes:
        return None
    first, second = node.inputs
    other = second if first == data else first
    inverts = facts_of(node).inverts
    if other not in graph.constants or (inverts and first != data):
        return None
    constant = graph.constants[other]
    if constant.dtype != np.float32 or constant.ndim > len(shape) or not np.isfinite(constant).all():
        return None
    try:
        spread = np.broadcast_to(constant.astype(np.float64), shape)
    except ValueError:
        return None
    return -spread if inverts else spread
