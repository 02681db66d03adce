"""How large the tensors of a network may be: what is too large is refused before anything is made of it."""

from __future__ import annotations

from math import prod

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.check.supported import MAX_ELEMENTS
from onnx_hw.onnx.graph.model import Graph, Value
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS
from onnx_hw.onnx.operators.registry import facts_of, node_location

MOST_ELEMENTS = 1 << 27
"""Of all tensors of a network together: each is laid out element by element."""

NAMED = 5
"""Tensors that are named when there are too many elements."""


def check_sizes(graph: Graph) -> None:
    """That every value of a graph can be laid out on a stream.

    Raises:
        UserError: inputs without a shape; values that are too large, with the nodes that make them, or all together.
    """
    open_inputs = [
        Problem(
            "input-shape",
            f"the shape of input `{value.name}` must be known",
            f"input `{value.name}`",
            "write it into the model",
            "capability",
        )
        for value in graph.inputs
        if value.shape is None
    ]
    if open_inputs:
        raise UserError(*open_inputs)
    sizes = {value.name: _size(value) for value in (*graph.inputs, *graph.values.values())}
    nodes = [node for node in graph.nodes if facts_of(node).effect not in SCALE_EFFECTS]  # what lies as its data does
    made = [(node, name) for node in nodes for name in node.outputs if name in sizes]
    where = {
        **{value.name: f"input `{value.name}`" for value in graph.inputs},
        **{n: node_location(node) for node, n in made},
    }
    problems = [
        Problem(
            "tensor-too-large",
            f"`{name}` must have at most {MAX_ELEMENTS:,} elements to become a stream, not {sizes[name]:,}",
            at,
            "smaller shapes (--dim NAME=NUMBER)",
            "capability",
        )
        for name, at in where.items()
        if sizes[name] > MAX_ELEMENTS
    ]
    total = sum(sizes[name] for name in where)
    if not problems and total > MOST_ELEMENTS:
        largest = sorted(where, key=lambda name: -sizes[name])[:NAMED]
        told = ", ".join(f"`{name}` {sizes[name]:,}" for name in largest)
        problems.append(
            Problem(
                "network-too-large",
                f"all tensors together must have at most {MOST_ELEMENTS:,} elements, not {total:,}: {told}",
                hint="smaller shapes (--dim NAME=NUMBER)",
                stage="capability",
            )
        )
    if problems:
        raise UserError(*problems)


def _size(value: Value) -> int:
    return prod(length for length in value.shape or () if isinstance(length, int))
