"""Invariants of every ``Model``, whatever pass made it."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_hw.messages.invariants import Fault
from onnx_hw.onnx.graph.dependencies import names_read, needed_nodes
from onnx_hw.onnx.graph.loops import delayed_value
from onnx_hw.onnx.graph.model import Model


def faults_of_model(model: Model) -> Iterator[Fault]:
    """Return names without or with two producers, nodes out of order, constants of another type than they have."""
    graph = model.graph
    producers = {name: node.label for node in graph.nodes for name in node.outputs if name}
    known = {value.name: "an input" for value in graph.inputs}
    known |= dict.fromkeys(graph.constants, "a constant")
    for node in graph.nodes:
        for name in sorted(names_read(node).difference(known)):
            what = f"`{producers[name]}`, which makes it, stands later" if name in producers else "nothing makes it"
            yield Fault(f"what a node reads must be there: {what}", node.label, name)
        for name in node.outputs:
            if name in known:
                yield Fault(f"a value must be made once; {known[name]} makes it, too", node.label, name)
            elif name:
                known[name] = f"`{node.label}`"
    for node in graph.nodes:
        if (name := delayed_value(node)) and name not in known:
            yield Fault("what a node delays must be there: nothing makes it", node.label, name)
    for value in graph.outputs:
        if value.name not in known:
            yield Fault("what the graph returns must be there: nothing makes it", tensor=value.name)
    for name, array in graph.constants.items():
        stored = graph.values.get(name)
        if stored is None or stored.shape != array.shape:
            yield Fault(f"a constant of shape {array.shape} must have that type, not {stored!r}", tensor=name)


def faults_of_typed(model: Model) -> Iterator[Fault]:
    """Return the faults of a model, and inputs and constants without a type or with an open dimension."""
    yield from faults_of_model(model)
    graph = model.graph
    for value in graph.inputs:
        known = graph.values.get(value.name)
        if value.shape is None or not all(isinstance(length, int) for length in value.shape):
            yield Fault(f"an input must have a number for every dimension, not {value!r}", tensor=value.name)
        elif known != value:
            yield Fault(f"an input must have one type, not {value!r} and {known!r}", tensor=value.name)


def faults_of_folded(model: Model) -> Iterator[Fault]:
    """Return the faults of a typed model, nodes and constants that no output needs, and unknown values."""
    yield from faults_of_typed(model)
    graph = model.graph
    needed = {value.name for value in graph.outputs}
    kept = {id(node) for node in needed_nodes(graph, needed)}
    for node in reversed(graph.nodes):
        if id(node) not in kept:
            yield Fault("what no output needs must be left out", node.label)
        needed |= names_read(node)
        for name in node.outputs:
            if name and name not in graph.values:
                yield Fault("what a node makes must be among the values", node.label, name)
    for name in graph.constants:
        if name not in needed:
            yield Fault("a constant that nothing reads must be left out", tensor=name)
