"""Dependencies in a graph: the values that each node reads, and the nodes that a value depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx_hw.onnx.graph.loops import delayed_value, delayed_values
from onnx_hw.onnx.graph.model import Graph, Node


def subgraphs(node: Node) -> Iterator[Graph]:
    """Yield the graphs among a node's attributes."""
    for attribute in node.attributes.values():
        for value in attribute if isinstance(attribute, tuple) else (attribute,):
            if isinstance(value, Graph):
                yield value


def names_read(node: Node) -> set[str]:
    """Return the names of the values that a node reads, with those that its subgraphs take from outside."""
    names = {name for name in node.inputs if name}
    for graph in subgraphs(node):
        names |= free_names(graph)
    return names


def free_names(graph: Graph) -> set[str]:
    """Return the names of the values that a subgraph takes from the scopes around it."""
    known = {value.name for value in graph.inputs} | set(graph.constants)
    free: set[str] = set()
    for node in graph.nodes:
        free |= names_read(node) - known
        known.update(node.outputs)
    return free | ({value.name for value in graph.outputs} - known)


def names_behind_inputs(graph: Graph) -> set[str]:
    """Return the names of the inputs, and of the values that depend on them; all others depend on constants alone."""
    names = {value.name for value in graph.inputs}
    for node in graph.nodes:
        if not names.isdisjoint(names_read(node)):
            names.update(node.outputs)
    return names


def needed_nodes(graph: Graph, values: Iterable[str]) -> list[Node]:
    """Return the nodes that some values depend on, in the order of the graph; a delay depends on what it delays."""
    needed = set(values)
    while True:
        kept = []
        for node in reversed(graph.nodes):
            if not needed.isdisjoint(name for name in node.outputs if name):
                kept.append(node)
                needed |= names_read(node)
        delayed = delayed_values(kept)
        if delayed <= needed:
            return kept[::-1]
        needed |= delayed


def readers_of(nodes: Sequence[Node]) -> Mapping[str, Sequence[Node]]:
    """Return the nodes that read each value, by the value's name; a delay reads what it delays, too."""
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
        if delayed := delayed_value(node):
            readers.setdefault(delayed, []).append(node)
    return readers
