"""Limits of tensor sizes: a model that is too large is refused before anything is made of it."""

from __future__ import annotations

from math import prod

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.graph.dependencies import names_read
from onnx_hw.onnx.graph.model import Graph, Value
from onnx_hw.onnx.operators.facts import SCALE_EFFECTS
from onnx_hw.onnx.operators.registry import facts_of, node_location

MAX_ELEMENTS = 1 << 23
"""Greatest number of elements of a tensor on a stream: the position of each is stored.

At one element per cycle, such a tensor takes about a tenth of a second.
"""

MAX_NETWORK_ELEMENTS = 1 << 27
"""Greatest number of elements of all tensors together: each is laid out element by element."""

NUM_LISTED = 5
"""Number of tensors that the message names when there are too many elements."""


def check_sizes(graph: Graph) -> None:
    """Check that every value of a graph can be laid out on a stream.

    Raises:
        UserError: inputs without a shape; values that are too large, with the nodes that make them, or all together.
    """
    open_inputs = [
        Problem(
            "input-shape",
            f"the shape of input `{value.name}` must be known",
            f"input `{value.name}`",
            "write the shape into the model",
            "capability",
        )
        for value in graph.inputs
        if value.shape is None
    ]
    if open_inputs:
        raise UserError(*open_inputs)
    sizes = {value.name: _size(value) for value in (*graph.inputs, *graph.values.values())}
    nodes = [
        node for node in graph.nodes if facts_of(node).effect not in SCALE_EFFECTS
    ]  # others keep the layout of their data
    constant = _unfolded_constants(graph)
    made = [(node, name) for node in nodes for name in node.outputs if name in sizes and constant.get(name, True)]
    where = {
        **{value.name: f"input `{value.name}`" for value in graph.inputs},
        **{n: node_location(node) for node, n in made},
    }
    problems = [
        Problem(
            "tensor-too-large",
            f"`{name}` must have at most {MAX_ELEMENTS:,} elements to become a "
            f"{'constant' if name in constant else 'stream'}, not {sizes[name]:,}",
            at,
            "use smaller shapes (--dim NAME=NUMBER)",
            "capability",
        )
        for name, at in where.items()
        if sizes[name] > MAX_ELEMENTS
    ]
    total = sum(sizes[name] for name in where)
    if not problems and total > MAX_NETWORK_ELEMENTS:
        largest = sorted(where, key=lambda name: -sizes[name])[:NUM_LISTED]
        listed = ", ".join(f"`{name}` {sizes[name]:,}" for name in largest)
        problems.append(
            Problem(
                "network-too-large",
                f"all tensors together must have at most {MAX_NETWORK_ELEMENTS:,} elements, not {total:,}: {listed}",
                hint="use smaller shapes (--dim NAME=NUMBER)",
                stage="capability",
            )
        )
    if problems:
        raise UserError(*problems)


def _unfolded_constants(graph: Graph) -> dict[str, bool]:
    """Return the results that depend on constants alone and were too large to fold.

    True for those that are made of the model's own constants, False for those that are made of others of them.
    """
    unfolded: dict[str, bool] = {}
    for node in graph.nodes:
        read = names_read(node)
        if read <= graph.constants.keys() | unfolded.keys():
            unfolded |= dict.fromkeys(node.outputs, read <= graph.constants.keys())
    return unfolded


def _size(value: Value) -> int:
    return prod(length for length in value.shape or () if isinstance(length, int))
