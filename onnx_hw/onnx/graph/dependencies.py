"""Which values a node reads, and which nodes a value depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnx_hw.onnx.graph.model import Graph, Node


def subgraphs(node: Node) -> Iterator[Graph]:
    """The graphs among a node's attributes."""
    for attribute in node.attributes.values():
        for value in attribute if isinstance(attribute, tuple) else (attribute,):
            if isinstance(value, Graph):
                yield value


def reads(node: Node) -> set[str]:
    """The values that a node reads, those which its subgraphs take from outside included."""
    names = {name for name in node.inputs if name}
    for graph in subgraphs(node):
        names |= free_names(graph)
    return names


def free_names(graph: Graph) -> set[str]:
    """The values that a subgraph takes from the scopes around it."""
    known = {value.name for value in graph.inputs} | set(graph.constants)
    free: set[str] = set()
    for node in graph.nodes:
        free |= reads(node) - known
        known.update(node.outputs)
    return free | ({value.name for value in graph.outputs} - known)


def needed_nodes(graph: Graph, wanted: Iterable[str]) -> list[Node]:
    """The nodes that the wanted values depend on, in order."""
    names = set(wanted)
    kept = []
    for node in reversed(graph.nodes):
        if not names.isdisjoint(name for name in node.outputs if name):
            kept.append(node)
            names |= reads(node)
    return kept[::-1]


def readers_of(nodes: Sequence[Node]) -> Mapping[str, Sequence[Node]]:
    """The nodes that read each value."""
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    return readers
