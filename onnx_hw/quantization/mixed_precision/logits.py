"""Logits: the values by which a model's integers are judged, its outputs or the inputs of their Softmax or ArgMax."""

from __future__ import annotations

from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect


def find_logits(graph: Graph) -> tuple[str, ...]:
    """Return the names of the logits, of numeric ones only; the first is that of the first output."""
    made = {name: node for node in graph.nodes for name in node.outputs}
    names = []
    for output in graph.outputs:
        name = output.name
        while name in made and _compares(made[name]):
            name = made[name].inputs[0]
        names.append(name)
    values = {**{value.name: value for value in graph.inputs}, **graph.values}
    return tuple(dict.fromkeys(name for name in names if name in values and values[name].element_type == "float"))


def _compares(node: Node) -> bool:
    """Say whether a node compares the numbers along an axis, as Softmax and ArgMax do, and does nothing else."""
    facts = facts_of(node)
    return facts.along_axis and facts.effect in (None, Effect.PICKS) and len(node.inputs) == 1
