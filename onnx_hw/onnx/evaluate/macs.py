"""Which nodes multiply and accumulate, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from onnx_hw.onnx.evaluate.infer_shapes import type_of
from onnx_hw.onnx.graph.dependencies import subgraphs
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of


def is_product(node: Node) -> bool:
    """Whether a node multiplies and accumulates, or one in its subgraphs does."""
    return facts_of(node).macs is not None or any(
        is_product(inner) for graph in subgraphs(node) for inner in graph.nodes
    )


def macs_of(node: Node, graph: Graph) -> int | None:
    """Multiply-accumulates of a node; None where it has some, but nobody knows how many.

    Args:
        graph: with the types of its values, the inputs among them.
    """
    count = facts_of(node).macs
    if count is None:
        return None if is_product(node) else 0
    types = {name: type_of(graph.values[name]) for name in (*node.inputs, *node.outputs) if name in graph.values}
    if any(types.get(name) is None for name in (*node.inputs, *node.outputs) if name):
        return None
    return count(node, [types.get(name) for name in node.inputs], [types.get(name) for name in node.outputs])


def macs_by_label(graph: Graph, labels: Collection[str]) -> dict[str, int]:
    """Multiply-accumulates of the nodes with these labels, as far as they are known; of products only."""
    counts: Counter[str] = Counter()
    for node in graph.nodes:
        if node.label in labels:
            counts[node.label] += macs_of(node, graph) or 0
    return {label: count for label, count in counts.items() if count}
