"""Multiply-accumulates: the nodes that have some, and their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from onnx_hw.onnx.evaluate.infer_shapes import tensor_type_of
from onnx_hw.onnx.graph.dependencies import subgraphs
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of


def is_product(node: Node) -> bool:
    """Tell whether a node multiplies and accumulates, or one in its subgraphs does."""
    return facts_of(node).macs is not None or any(
        is_product(inner) for graph in subgraphs(node) for inner in graph.nodes
    )


def macs_of(node: Node, graph: Graph) -> int | None:
    """Count the multiply-accumulates of a node; None where it has some, but their number is unknown.

    Args:
        graph: the graph, with the types of its values, the inputs among them.
    """
    count = facts_of(node).macs
    if count is None:
        return None if is_product(node) else 0
    types = {name: tensor_type_of(graph.values[name]) for name in (*node.inputs, *node.outputs) if name in graph.values}
    if any(types.get(name) is None for name in (*node.inputs, *node.outputs) if name):
        return None
    return count(node, [types.get(name) for name in node.inputs], [types.get(name) for name in node.outputs])


def macs_by_label(graph: Graph, labels: Collection[str]) -> dict[str, int]:
    """Count the multiply-accumulates of the products with these labels, as far as the numbers are known."""
    counts: Counter[str] = Counter()
    for node in graph.nodes:
        if node.label in labels:
            counts[node.label] += macs_of(node, graph) or 0
    return {label: count for label, count in counts.items() if count}
