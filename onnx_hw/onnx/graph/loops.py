"""Loops over time in a graph: a node that delays a value, and the nodes that make this value of the delayed one.

A ``PreviousStep`` names the value that it delays in the attribute ``of``; the value is not among its inputs, and its
producer stands later. So the nodes stay in topological order, and the way back is a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnx_hw.onnx.graph.model import Node

DELAY = "onnx_hw", "PreviousStep"
"""Domain and name of the operator that delays a value by one step of time."""


@dataclass(frozen=True)
class TimeLoop:
    """Nodes that depend on each other over time.

    Attributes:
        delays: nodes that delay a value of the loop.
        nodes: all other nodes of the loop, in the order of the graph.
    """

    delays: tuple[Node, ...]
    nodes: tuple[Node, ...]

    @property
    def steps(self) -> int:
        """Number of steps of time."""
        return int(self.delays[0].attributes["steps"])

    @property
    def axis(self) -> int:
        """Axis of time of every value of the loop."""
        return int(self.delays[0].attributes["axis"])

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the values that the nodes make, delayed ones not included."""
        return tuple(name for node in self.nodes for name in node.outputs if name)


def is_delay(node: Node) -> bool:
    """Return whether a node delays a value that it names in an attribute."""
    return (node.domain, node.op_type) == DELAY


def delayed_value(node: Node) -> str:
    """Return the name of the value that a node delays; an empty string for all other nodes."""
    return str(node.attributes["of"]) if is_delay(node) else ""


def delayed_values(nodes: Iterable[Node]) -> set[str]:
    """Return the names of all values that some node delays."""
    return {delayed_value(node) for node in nodes if is_delay(node)}


def loops_of(nodes: Sequence[Node]) -> dict[str, TimeLoop]:
    """Return the loop of each node that delays a value, by the name of its result.

    A delayed value that does not depend on its delay has a loop without nodes.
    """
    delays = [node for node in nodes if is_delay(node)]
    if not delays:
        return {}
    makers = {name: k for k, node in enumerate(nodes) for name in node.outputs if name}
    before = [_places(node.inputs, makers) | _places([delayed_value(node)], makers) for node in nodes]
    behind: list[set[int]] = [set() for _ in nodes]
    for k, places in enumerate(before):
        for place in places:
            behind[place].add(k)
    loops: dict[str, TimeLoop] = {}
    for delay in delays:
        if delay.outputs[0] in loops:
            continue
        place = makers[delay.outputs[0]]
        both = sorted(_reached(place, before) & _reached(place, behind))
        parts = tuple(nodes[k] for k in both if is_delay(nodes[k])) or (delay,)
        loop = TimeLoop(parts, tuple(nodes[k] for k in both if not is_delay(nodes[k])))
        loops |= {part.outputs[0]: loop for part in parts}
    return loops


def loops_together(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes in an order in which each loop stands together, its delays first, behind all that it reads."""
    loops = loops_of(nodes)
    if not loops:
        return list(nodes)
    inner = {id(node): loop for loop in loops.values() for node in (*loop.delays, *loop.nodes)}
    makers = {name: node for node in nodes for name in node.outputs if name}
    placed: set[int] = set()
    ordered: list[Node] = []
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting[-1]
        loop = inner.get(id(node))
        parts = (node,) if loop is None else (*loop.delays, *loop.nodes)
        if id(node) in placed:
            waiting.pop()
            continue
        names = [name for part in parts for name in (*part.inputs, delayed_value(part)) if name in makers]
        missing = [makers[name] for name in dict.fromkeys(names) if id(makers[name]) not in placed]
        missing = [other for other in missing if not any(other is part for part in parts)]
        if missing:
            waiting += reversed(missing)
            continue
        ordered += parts
        placed.update(map(id, parts))
    return ordered


def _places(names: Iterable[str], makers: Mapping[str, int]) -> set[int]:
    return {makers[name] for name in names if name in makers}


def _reached(start: int, edges: Sequence[set[int]]) -> set[int]:
    """Return the places on ways from one place, itself included only if a way leads back to it."""
    reached: set[int] = set()
    waiting = list(edges[start])
    while waiting:
        place = waiting.pop()
        if place not in reached:
            reached.add(place)
            waiting += edges[place] - reached
    return reached
