"""Partition of a model: the host computes the head before the hardware and the tail behind it, two separate models.

    graph inputs ─▶ head ─ entering ─▶ hardware ─ leaving ─▶ tail ─▶ graph outputs
    graph inputs and head ─────────────── handed ──────────▶ tail

A node that only makes constants belongs to the part that reads them, or to both parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from onnx_hw.ir.network import NetworkNode
from onnx_hw.onnx.graph.dependencies import names_read, needed_nodes
from onnx_hw.onnx.graph.model import Graph, Model, Node


@dataclass(frozen=True)
class HostParts:
    """The two models of the host.

    Attributes:
        head: model from graph inputs to the values that enter the hardware and those handed over; None without nodes.
        tail: model from the values that leave the hardware and those handed over to graph outputs; None where it makes
            no graph output.
        handed: names of the graph inputs and values of the head that the tail reads, or that are graph outputs.
    """

    head: Model | None
    tail: Model | None
    handed: tuple[str, ...]


def head_nodes(graph: Graph, before: Sequence[Node], entering: Iterable[str], tail: Sequence[Node]) -> list[Node]:
    """Return the nodes of the head, in order: a value that enters the hardware, the tail or a graph output needs them.

    Args:
        before: nodes that read only graph inputs, constants and results of each other, in topological order.
        entering: names of the values that enter the hardware.
        tail: nodes of the tail.
    """
    return needed_nodes(replace(graph, nodes=tuple(before)), [*entering, *_needed_before_tail(graph, tail)])


def hardware_nodes(nodes: Sequence[NetworkNode], tensors: Iterable[str]) -> list[NetworkNode]:
    """Return the nodes that some tensors depend on, over loops, too, in the order of ``nodes``."""
    needed = set(tensors)
    while True:
        kept: list[NetworkNode] = []
        before = set(needed)
        for node in reversed(nodes):
            if needed & set(node.outputs):
                kept.append(node)
                needed |= set(node.inputs)
        if needed == before:
            return kept[::-1]


def host_parts(model: Model, head: Sequence[Node], tail: Sequence[Node], entering: Sequence[str]) -> HostParts:
    """Return the head and the tail of a model as models.

    Args:
        model: the model; its graph holds every value and constant that the nodes name.
        head, tail: nodes of the two parts, in topological order.
        entering: names of the values that enter the hardware.
    """
    graph = model.graph
    outputs = [value.name for value in graph.outputs]
    before = _results(head) | {value.name for value in graph.inputs}
    behind = _results(tail)
    handed = sorted(_needed_before_tail(graph, tail) & before)
    tail_inputs = sorted(set().union(*map(names_read, tail)) - behind - set(graph.constants))
    ends = [name for name in outputs if name in behind or (name in graph.constants and name not in handed)]
    first = [value.name for value in graph.inputs]
    results = list(dict.fromkeys(name for name in (*entering, *handed) if name not in first))
    return HostParts(
        _part(model, head, first, results, "head") if head else None,
        _part(model, tail, tail_inputs, ends, "tail") if ends else None,
        tuple(handed),
    )


def _needed_before_tail(graph: Graph, tail: Sequence[Node]) -> set[str]:
    """Return the values that the tail and the graph outputs need and that the tail does not make."""
    return {value.name for value in graph.outputs}.union(*map(names_read, tail)) - _results(tail)


def _results(nodes: Sequence[Node]) -> set[str]:
    return {name for node in nodes for name in node.outputs if name}


def _part(model: Model, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str], what: str) -> Model:
    """Return some nodes of a model as a model of its own, with those of the inputs that they read."""
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
