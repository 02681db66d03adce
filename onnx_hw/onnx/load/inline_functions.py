"""Inlining of model-local functions: a call becomes the function's nodes, under names of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from onnx_hw.onnx.check.functions import all_nodes, called_function, functions_by_key
from onnx_hw.onnx.parse.source_model import (
    FunctionKey,
    SourceAttribute,
    SourceFunction,
    SourceGraph,
    SourceModel,
    SourceNode,
    SourceValue,
)

#: Greatest length of a prefix made from the calling node's name.
_LONGEST_PREFIX = 80


@dataclass(frozen=True)
class Body:
    """Meaning of the names and attributes of a graph or function body where it is inlined.

    Attributes:
        opsets: the operator versions that the nodes mean, by domain.
        names: the new name of each old one; None in the main graph, whose names stay.
        prefix: the beginning of every new name.
        attributes: values for references, by the function's attribute names.
    """

    opsets: Mapping[str, int]
    names: dict[str, str] | None = None
    prefix: str = ""
    attributes: Mapping[str, SourceAttribute] = field(default_factory=dict)


@dataclass
class Inliner:
    """Inliner of a model's functions, with the types of their inner values under the new names, ``values``."""

    functions: Mapping[FunctionKey, SourceFunction]
    taken: set[str]
    values: list[SourceValue] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @classmethod
    def of(cls, model: SourceModel) -> Inliner:
        """Create the inliner of a model without recursion."""
        functions = functions_by_key(model)
        return cls(functions, set(_all_names(model.graph)) if functions else set())

    def nodes(self, nodes: Iterable[SourceNode], body: Body) -> Iterator[tuple[SourceNode, Body]]:
        """Yield the nodes of a body and of every function it calls, in order, each with the body whose names it uses.

        The nodes' own names are replaced already; those inside their subgraphs are for ``graph`` to replace.
        """
        stack = [(iter(nodes), body)]
        while stack:
            source, body = stack[-1]
            node = next(source, None)
            if node is None:
                stack.pop()
                continue
            node = self._rename_node(node, body)
            callee = called_function(node, self.functions)
            if callee is None:
                yield node, body
                continue
            inner = self._body_of(callee, node)
            for parameter, name in zip(callee.outputs, node.outputs, strict=False):
                if name and parameter in callee.inputs:
                    yield _identity(_new_name(inner, parameter), name, node), inner
            stack.append((iter(callee.nodes), inner))

    def graph(self, graph: SourceGraph, body: Body) -> tuple[SourceGraph, Body]:
        """Rename a subgraph's inputs, outputs, constants and value_info; return it and the body for its nodes."""
        if body.names is None:
            return graph, body
        names = dict(body.names)
        inner = replace(body, names=names)
        for name in _defined_names(graph):
            names[name] = self._fresh(name, body.prefix)
        return (
            replace(
                graph,
                inputs=tuple(replace(value, name=_new_name(inner, value.name)) for value in graph.inputs),
                outputs=tuple(replace(value, name=_new_name(inner, value.name)) for value in graph.outputs),
                values=tuple(replace(value, name=_new_name(inner, value.name)) for value in graph.values),
                constants=tuple(replace(value, name=_new_name(inner, value.name)) for value in graph.constants),
            ),
            inner,
        )

    def _rename_node(self, node: SourceNode, body: Body) -> SourceNode:
        if body.names is None:
            return node
        names = body.names
        for name in node.outputs:
            if name and name not in names:
                names[name] = self._fresh(name, body.prefix)
        return replace(
            node,
            name=f"{body.prefix}/{node.name}" if node.name else "",
            inputs=tuple(names.get(name, name) for name in node.inputs),
            outputs=tuple(names.get(name, name) for name in node.outputs),
            attributes=tuple(_resolve_references(node.attributes, body.attributes)),
        )

    def _body_of(self, callee: SourceFunction, call: SourceNode) -> Body:
        """Return the names and attributes of one call. Missing trailing arguments count as empty."""
        prefix = call.name or next((name for name in call.outputs if name), callee.name)
        if len(prefix) > _LONGEST_PREFIX:
            prefix = f"call{next(self._numbers)}"
        arguments = call.inputs + ("",) * (len(callee.inputs) - len(call.inputs))
        names = dict(zip(callee.inputs, arguments, strict=True))
        for parameter, name in zip(callee.outputs, call.outputs, strict=False):
            if name and parameter not in callee.inputs:
                names[parameter] = name
        arguments_by_name = {attribute.name: attribute for attribute in (*callee.defaults, *call.attributes)}
        body = Body(callee.opsets, names, prefix, arguments_by_name)
        for value in callee.values:
            if value.name not in callee.inputs:
                if value.name not in names:
                    names[value.name] = self._fresh(value.name, prefix)
                self.values.append(replace(value, name=names[value.name]))
        return body

    def _fresh(self, name: str, prefix: str) -> str:
        new = f"{prefix}/{name}"
        while new in self.taken:
            new = f"{prefix}/{name}/{next(self._numbers)}"
        self.taken.add(new)
        return new


def _new_name(body: Body, name: str) -> str:
    return name if body.names is None else body.names.get(name, name)


def _resolve_references(
    attributes: Iterable[SourceAttribute], values: Mapping[str, SourceAttribute]
) -> Iterator[SourceAttribute]:
    """Replace references by the call's value; an attribute whose value the call lacks is left out."""
    for attribute in attributes:
        if not attribute.reference:
            yield attribute
        elif attribute.reference in values:
            source = values[attribute.reference]
            yield replace(source, name=attribute.name, where=attribute.where)


def _identity(source: str, result: str, call: SourceNode) -> SourceNode:
    """Make the node for a function's output that is one of its inputs."""
    return replace(call, op_type="Identity", domain="", overload="", inputs=(source,), outputs=(result,), attributes=())


def _defined_names(graph: SourceGraph) -> Iterator[str]:
    """Yield the names that a subgraph defines by itself, with those of its nodes' outputs."""
    yield from (value.name for value in graph.inputs)
    yield from (constant.name for constant in graph.constants)
    yield from (name for node in graph.nodes for name in node.outputs if name)


def _all_names(graph: SourceGraph) -> Iterator[str]:
    yield from _defined_names(graph)
    for node in all_nodes(graph.nodes):
        yield from node.outputs
        for inner in node.graphs:
            yield from _defined_names(inner)
