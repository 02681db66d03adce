"""Logits: the values by which a model's integers are judged, its outputs or the inputs of their Softmax or ArgMax."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw.onnx.graph.model import Graph, Node, Value
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect


def find_logits(graph: Graph) -> tuple[str, ...]:
    """Return the names of the logits, of numeric ones only; the first is that of the first output."""
    made = {name: node for node in graph.nodes for name in node.outputs}
    values = {**{value.name: value for value in graph.inputs}, **graph.values}
    names = []
    for output in graph.outputs:
        name = _numbers_of(output.name, made, values, graph)
        while name in made and _compares(made[name]):
            name = made[name].inputs[0]
        names.append(name)
    return tuple(dict.fromkeys(name for name in names if name in values and values[name].element_type == "float"))


def _numbers_of(name: str, made: Mapping[str, Node], values: Mapping[str, Value], graph: Graph) -> str:
    """Return the name of the floats that alone decide an output of another type, such as a label."""
    while name in made and (name not in values or values[name].element_type != "float"):
        data = [each for each in made[name].inputs if each and each not in graph.constants]
        if len(data) != 1:
            break
        (name,) = data
    return name


def _compares(node: Node) -> bool:
    """Say whether a node compares the numbers along an axis, as Softmax and ArgMax do, and does nothing else."""
    facts = facts_of(node)
    return facts.along_axis and facts.effect in (None, Effect.NORMALIZES, Effect.PICKS) and len(node.inputs) == 1
