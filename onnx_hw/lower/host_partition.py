"""What the host computes around the hardware, as models of their own: the head before it, the tail behind it.

    graph inputs ─▶ head ─ entering ─▶ hardware ─ leaving ─▶ tail ─▶ graph outputs
    graph inputs and head ─────────────── handed ──────────▶ tail

A node that only makes constants belongs to whichever part reads them, or to both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from onnx_hw.ir.network import NetworkNode
from onnx_hw.onnx.graph.dependencies import names_read, needed_nodes
from onnx_hw.onnx.graph.model import Graph, Model, Node


@dataclass(frozen=True)
class HostParts:
    """The cut.

    Attributes:
        head: from graph inputs to what enters the hardware and what is handed over; None without nodes.
        tail: from what leaves the hardware and what is handed over to graph outputs; None where it makes none.
        handed: the graph inputs and values of the head that the tail reads, or that are graph outputs.
    """

    head: Model | None
    tail: Model | None
    handed: tuple[str, ...]


def head_nodes(graph: Graph, before: Sequence[Node], entering: Iterable[str], tail: Sequence[Node]) -> list[Node]:
    """The nodes of the head, in order: what enters the hardware depends on them, or the tail, or a graph output.

    Args:
        before: nodes that read graph inputs, constants and each other alone, in order.
    """
    return needed_nodes(replace(graph, nodes=tuple(before)), [*entering, *_wanted(graph, tail)])


def hardware_nodes(nodes: Sequence[NetworkNode], tensors: Iterable[str]) -> list[NetworkNode]:
    """The nodes that some tensors depend on, in topological order, as they are given."""
    needed = set(tensors)
    kept: list[NetworkNode] = []
    for node in reversed(nodes):
        if needed & set(node.outputs):
            kept.append(node)
            needed |= set(node.inputs)
    return kept[::-1]


def host_parts(model: Model, head: Sequence[Node], tail: Sequence[Node], entering: Sequence[str]) -> HostParts:
    """The parts of a model, whose graph holds every value and constant that the nodes name.

    Args:
        head, tail: their nodes, in order.
        entering: values that enter the hardware.
    """
    graph = model.graph
    outputs = [value.name for value in graph.outputs]
    before = _made(head) | {value.name for value in graph.inputs}
    behind = _made(tail)
    handed = sorted(_wanted(graph, tail) & before)
    given = sorted(set().union(*map(names_read, tail)) - behind - set(graph.constants))
    ends = [name for name in outputs if name in behind or (name in graph.constants and name not in handed)]
    first = [value.name for value in graph.inputs]
    results = list(dict.fromkeys(name for name in (*entering, *handed) if name not in first))
    return HostParts(
        _part(model, head, first, results, "head") if head else None,
        _part(model, tail, given, ends, "tail") if ends else None,
        tuple(handed),
    )


def _wanted(graph: Graph, tail: Sequence[Node]) -> set[str]:
    """What the tail and the graph's outputs need and the tail does not make."""
    return {value.name for value in graph.outputs}.union(*map(names_read, tail)) - _made(tail)


def _made(nodes: Sequence[Node]) -> set[str]:
    return {name for node in nodes for name in node.outputs if name}


def _part(model: Model, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str], what: str) -> Model:
    """A piece of the model as a model of its own; of the inputs only those that it reads."""
    graph = model.graph
    known = {**graph.values, **{value.name: value for value in (*graph.inputs, *graph.outputs)}}
    read = set().union(*map(names_read, nodes))
    part = Graph(
        f"{graph.name} ({what})",
        tuple(nodes),
        tuple(known[name] for name in inputs if name in read),
        tuple(known[name] for name in outputs),
        {name: array for name, array in graph.constants.items() if name in read or name in outputs},
        graph.values,
    )
    return replace(model, graph=part)
