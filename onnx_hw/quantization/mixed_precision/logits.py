"""The values by which a model's integers are judged: its outputs, but what a Softmax or an ArgMax is taken of."""

from __future__ import annotations

from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect


def find_logits(graph: Graph) -> tuple[str, ...]:
    """Their names, of numbers only; the first is that of the first output."""
    made = {name: node for node in graph.nodes for name in node.outputs}
    found = []
    for output in graph.outputs:
        name = output.name
        while name in made and _compares(made[name]):
            name = made[name].inputs[0]
        found.append(name)
    values = {**{value.name: value for value in graph.inputs}, **graph.values}
    return tuple(dict.fromkeys(name for name in found if name in values and values[name].element_type == "float"))


def _compares(node: Node) -> bool:
    """Whether a node sets the numbers along an axis in relation to each other, and does nothing else."""
    facts = facts_of(node)
    return facts.along_axis and facts.effect in (None, Effect.PICKS) and len(node.inputs) == 1
