"""Integer-valued weights: floats that are integers times a power of two become these integers.

FINN stores weights that it has trained with few bits in this way. A model without any integers is not changed: its
weights get a scale like all others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.exact.integers import Int
from onnx_hw.onnx.graph.graph_editor import Additions
from onnx_hw.onnx.graph.model import Graph, Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect

VERSION = 21
"""Opset of the inserted nodes: the first with 16 bits."""

MAX_BITS = 16
"""Greatest width of the integers, in bits."""

MAX_SHIFT = 30
"""Greatest shift: the least step is 2 to the minus this."""


def recover_integer_weights(model: Model) -> Model:
    """Return the same model with a DequantizeLinear behind the integers of such weights; it is folded."""
    graph = model.graph
    added, nodes = Additions(graph), list[Node]()
    for node in graph.nodes:
        facts = facts_of(node)
        at = facts.weights.at if facts.weights is not None and facts.effect is Effect.SUMS else None
        name = "" if at is None or at >= len(node.inputs) else node.inputs[at]
        found = _integers(graph, name)
        if at is not None and found is not None:
            integers, step = found
            dtype = f"int{8 if _bits(integers) <= 8 else MAX_BITS}"
            stored = added.constant(f"{name}/integers", integers.astype(dtype), dtype)
            scale = added.constant(f"{name}/step", np.array(step, dtype=np.float32), "float")
            result = added.value(f"{name}/whole", graph.values[name])
            nodes.append(Node("", "DequantizeLinear", "", VERSION, (stored, scale), (result,)))
            node = replace(node, inputs=(*node.inputs[:at], result, *node.inputs[at + 1 :]))
        nodes.append(node)
    return replace(model, graph=added.graph(nodes))


def _integers(graph: Graph, name: str) -> tuple[np.ndarray, float] | None:
    """Return integers of at most 16 bits and their step, the greatest that is at most 1; None for other constants."""
    array = graph.constants.get(name)
    if array is None or array.dtype != np.float32 or not array.size or not np.isfinite(array).all():
        return None
    for k in range(MAX_SHIFT + 1):
        counted = np.ldexp(array.astype(np.float64), k)
        if _bits(counted) > MAX_BITS:
            return None
        if (counted == np.rint(counted)).all():
            return counted.astype(np.int64), 2.0**-k
    return None


def _bits(numbers: np.ndarray) -> int:
    """Return the bits of a signed integer type that holds all numbers."""
    low, high = int(np.floor(numbers.min(initial=0))), int(np.ceil(numbers.max(initial=0)))
    return Int.holding(min(low, -1), high).bits
