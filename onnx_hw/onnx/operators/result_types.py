"""Types of a node's outputs before the model runs, and their values where inputs are constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.evaluate import compute, is_cost_error
from onnx_hw.onnx.operators.registry import OnnxOperator, node_location, operator_of
from onnx_hw.onnx.operators.tensor_type import GraphTypes, TensorType, TypeCall, Types

#: Greatest number of elements of a value that is computed while types are inferred: shapes, axes, scales, not weights.
VALUE_LIMIT = 1 << 12
#: Greatest number of elements of all inputs with which an operator without type rule is computed on zeros.
_ZEROS_LIMIT = 1 << 24


def result_types(node: Node, inputs: Types, graph_types: GraphTypes) -> list[TensorType | None]:
    """Infer the types of a node's outputs, None for an output of which nothing is known.

    Args:
        inputs: one type per input of the node; None for an omitted one. All must be known.
        graph_types: the function that infers the types of the outputs of a subgraph.

    Raises:
        UserError: the operator is not known, or the inputs cannot be those of this node.
    """
    operator = operator_of(node)
    arguments = operator.bind(node)
    unknown: list[TensorType | None] = [None] * len(node.outputs)
    present = [x for x in inputs if x is not None]
    size = sum(x.size for x in present)
    constant = operator.stateless and size <= VALUE_LIMIT and all(x.value is not None for x in present)
    decided = not any(_is_open(inputs, position) for position in operator.shape_inputs)
    if operator.types is not None:
        inferred = _by_rule(operator, node, inputs, arguments, graph_types) if decided else unknown
        if not constant or any(tensor_type is not None and tensor_type.size > VALUE_LIMIT for tensor_type in inferred):
            return inferred
    elif not constant and (operator.dynamic or not decided or size > _ZEROS_LIMIT):
        return unknown
    else:
        inferred = unknown
    try:
        values = [None if x is None else _zeros(x) for x in inputs]
    except ValueError:  # no elements, but lengths that numpy cannot count
        return inferred
    try:
        results = compute(node, values, _no_subgraph)
    except _NoSubgraph:
        return inferred
    except UserError as error:
        if is_cost_error(error):
            return inferred
        raise
    return [_computed(x, constant) for x in results]


def _by_rule(
    operator: OnnxOperator, node: Node, inputs: Types, arguments: dict[str, Any], graph_types: GraphTypes
) -> list[TensorType | None]:
    assert operator.types is not None
    if operator.rule_takes_call:
        arguments["call"] = TypeCall(node, graph_types)
    try:
        inferred = operator.types(*inputs, **arguments)
    except (ValueError, IndexError, TypeError, ArithmeticError, MemoryError) as reason:  # attributes may hold anything
        message = f"{node.op_type} must fit its inputs: {reason}"
        raise user_error("type-mismatch", message, where=node_location(node), stage="validate") from reason
    types = list(inferred) if isinstance(inferred, tuple) else [inferred]
    if len(types) < len(node.outputs):
        message = f"{operator!r} has {len(types)} outputs, not {len(node.outputs)}"
        raise user_error("output-count", message, where=node_location(node), stage="validate")
    return types[: len(node.outputs)]


def _is_open(inputs: Types, position: int) -> bool:
    """Tell whether an input is present, but its value not known."""
    if position >= len(inputs):
        return False
    x = inputs[position]
    return x is not None and x.value is None


def _computed(value: Any, constant: bool) -> TensorType | None:
    """Return the type of a computed value; with the value, unless it was computed from zeros."""
    if not isinstance(value, np.ndarray):
        return None
    return TensorType(value.dtype, value.shape, value if constant else None)


def _zeros(x: TensorType) -> Array:
    """Return the value where it is known, else zeros that take no memory."""
    if x.value is not None:
        return x.value
    zero: Any = "" if x.dtype == object else 0
    return np.broadcast_to(np.array(zero).astype(x.dtype), x.shape)


class _NoSubgraph(Exception):
    """Error: an operator tries to run a subgraph, of which only types are known."""


def _no_subgraph(_: Graph, __: Sequence[Any]) -> list[Any]:
    raise _NoSubgraph
