"""Dimension variables: one name stands for one number in the whole model, subgraphs included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.messages.text import quote
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value


def dimension_variables(model: Model) -> tuple[str, ...]:
    """Return every dimension variable of the main graph's inputs and outputs, in file order."""
    names = dict.fromkeys(
        dimension
        for value in (*model.graph.inputs, *model.graph.outputs)
        for dimension in value.shape or ()
        if isinstance(dimension, str)
    )
    return tuple(names)


def bind_dimensions(model: Model, sizes: Mapping[str, int]) -> Model:
    """Replace dimension variables by numbers, everywhere in a model.

    Raises:
        UserError: a name that no input or output of the model has, or a size below 1; all of them at once.
    """
    known = dimension_variables(model)
    problems = []
    for name, size in sizes.items():
        if name not in known:
            problems.append(
                Problem(
                    "dimension-unknown",
                    f"a dimension to bind must be one of the model's; it has no {quote(name)}",
                    hint=f"its dimension variables are: {', '.join(known)}" if known else "it has none",
                    stage="arguments",
                )
            )
        elif size < 1:
            problems.append(
                Problem(
                    "dimension-size", f"dimension {quote(name)} must be 1 or greater, not {size}", stage="arguments"
                )
            )
    if problems:
        raise UserError(*problems)
    if not sizes:
        return model
    return replace(model, graph=substitute_dimensions(model.graph, sizes))


def substitute_dimensions(graph: Graph, sizes: Mapping[str, int | None]) -> Graph:
    """Replace dimension variables of a graph by numbers, subgraphs included; names that it lacks are ignored.

    With None for a number, the variable's dimensions have no name any more.
    """
    return replace(
        graph,
        nodes=tuple(_node(node, sizes) for node in graph.nodes),
        inputs=tuple(_value(value, sizes) for value in graph.inputs),
        outputs=tuple(_value(value, sizes) for value in graph.outputs),
        values={name: _value(value, sizes) for name, value in graph.values.items()},
    )


def _node(node: Node, sizes: Mapping[str, int | None]) -> Node:
    attributes = {name: _attribute(value, sizes) for name, value in node.attributes.items()}
    changed = any(attributes[name] is not value for name, value in node.attributes.items())
    return replace(node, attributes=attributes) if changed else node


def _attribute(value: Any, sizes: Mapping[str, int | None]) -> Any:
    if isinstance(value, Graph):
        return substitute_dimensions(value, sizes)
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return tuple(substitute_dimensions(graph, sizes) for graph in value)
    return value


def _value(value: Value, sizes: Mapping[str, int | None]) -> Value:
    if value.shape is None or not any(isinstance(d, str) and d in sizes for d in value.shape):
        return value
    return replace(value, shape=tuple(sizes.get(d, d) if isinstance(d, str) else d for d in value.shape))
