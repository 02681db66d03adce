"""Order of nodes: dependencies, cycles, and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnx_hw.onnx.parse.source_model import SourceGraph, SourceModel, SourceNode


def names_read(node: SourceNode) -> set[str]:
    """Return the names that a node needs: its inputs, and what its subgraphs take from outside."""
    names = {name for name in node.inputs if name}
    for graph in node.graphs:
        names |= captures(graph)
    return names


def captures(graph: SourceGraph) -> set[str]:
    """Return the names that a subgraph takes from the scopes around it."""
    own = {value.name for value in graph.inputs} | {constant.name for constant in graph.constants}
    own.update(name for node in graph.nodes for name in node.outputs)
    taken = {value.name for value in graph.outputs if value.name}
    for node in graph.nodes:
        taken |= names_read(node)
    return taken - own


def dependencies(nodes: Sequence[SourceNode]) -> list[list[int]]:
    """Return for each node the indices of the nodes whose results it needs, ascending."""
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.outputs:
            if name:
                producer.setdefault(name, index)
    return [sorted({producer[name] for name in names_read(node) if name in producer}) for node in nodes]


def cycles(nodes: Sequence[SourceNode]) -> list[list[int]]:
    """Return the groups of nodes that depend on each other, or on themselves; each in the order in which values flow.

    Tarjan's strongly connected components, with a stack of our own: a chain may be longer than Python's.
    """
    edges = dependencies(nodes)
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    groups: list[list[int]] = []
    for root in range(len(nodes)):
        if root in number:
            continue
        work = [(root, 0)]
        while work:
            node, step = work.pop()
            if step == 0:
                number[node] = low[node] = len(number)
                open_nodes.append(node)
                is_open.add(node)
            else:
                low[node] = min(low[node], low[edges[node][step - 1]])
            for position in range(step, len(edges[node])):
                target = edges[node][position]
                if target not in number:
                    work += [(node, position + 1), (target, 0)]
                    break
                if target in is_open:
                    low[node] = min(low[node], number[target])
            else:
                if low[node] == number[node]:
                    group = [open_nodes.pop()]
                    while group[-1] != node:
                        group.append(open_nodes.pop())
                    is_open.difference_update(group)
                    if len(group) > 1 or node in edges[node]:
                        groups.append(group)
    return groups


def sort_model(model: SourceModel) -> SourceModel:
    """Sort the nodes of every graph and function body of a model topologically."""
    functions = tuple(replace(function, nodes=sort_nodes(function.nodes)) for function in model.functions)
    return replace(model, graph=_sort_graph(model.graph), functions=functions)


def sort_nodes(nodes: Sequence[SourceNode]) -> tuple[SourceNode, ...]:
    """Sort nodes without a cycle topologically, those of their subgraphs too; otherwise keep the file's order."""
    edges = dependencies(nodes)
    done: set[int] = set()
    order: list[int] = []
    for root in range(len(nodes)):
        waiting = [root]
        while waiting:
            node = waiting[-1]
            missing = [target for target in edges[node] if target not in done]
            if node in done:
                waiting.pop()
            elif missing:
                waiting.extend(reversed(missing))
            else:
                done.add(node)
                order.append(waiting.pop())
    return tuple(_sort_node(nodes[index]) for index in order)


def _sort_graph(graph: SourceGraph) -> SourceGraph:
    return replace(graph, nodes=sort_nodes(graph.nodes))


def _sort_node(node: SourceNode) -> SourceNode:
    if not node.graphs:
        return node
    return replace(
        node,
        attributes=tuple(replace(attribute, value=_sort_value(attribute.value)) for attribute in node.attributes),
    )


def _sort_value(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(_sort_value(item) for item in value)
    return _sort_graph(value) if isinstance(value, SourceGraph) else value
