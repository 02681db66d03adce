"""Constant folding: what can be computed before the model runs is computed now, and becomes a constant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.onnx.evaluate.infer_shapes import infer_graph, with_types
from onnx_hw.onnx.evaluate.unroll_control_flow import unroll
from onnx_hw.onnx.graph.dependencies import names_read, needed_nodes, subgraphs
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators.allowance import MAX_HELD_BYTES, Allowance, CostExceeded, bytes_of
from onnx_hw.onnx.operators.dtypes import name_of_dtype, to_model_dtype
from onnx_hw.onnx.operators.evaluate import compute, is_cost_error, tagged_constants
from onnx_hw.onnx.operators.registry import lookup
from onnx_hw.onnx.operators.result_types import VALUE_LIMIT
from onnx_hw.onnx.operators.tensor_type import TensorType

#: Size of a result above which it is computed when the model runs, if it is also larger than all its inputs together.
GROWTH_BYTES_LIMIT = 1 << 20  # bytes

#: Greatest size of a result that is made of a shape alone, such as the weights of a model without trained ones.
FILLED_BYTES_LIMIT = 1 << 26  # bytes

#: Greatest total size of the constants that folding makes.
FOLDED_BYTES_LIMIT = 1 << 28  # bytes

#: Greatest number of steps that folding takes; a run of the model may take many times more.
MAX_STEPS = 1 << 30

#: Operators that are not run here, since they may run for ever: those with few iterations have been unrolled before.
LOOPS = frozenset(("Loop", "Scan"))


def fold(model: Model, keep: Callable[[Node], bool] = lambda node: False) -> Model:
    """Replace every node whose outputs can be known by constants, and remove what no output needs.

    Known are the outputs of nodes that read only constants, shapes of values of known shape, and tensors without
    elements. Not folded are random operators, results that are large and larger than what they are computed from, and
    what would cost too much. If and Loop nodes of which it is known how they will run are unrolled first.

    Args:
        keep: nodes for which it is true stay as they are (such as the DequantizeLinear of weights).

    Raises:
        UserError: an operator cannot compute its inputs.
    """
    graph = unroll(model).graph
    problems: list[Problem] = []
    types = infer_graph(graph, {}, problems)
    if problems:
        raise UserError(*problems)
    known: dict[str, Any] = tagged_constants(graph)
    folded: dict[str, Any] = {}
    nodes = []
    allowance = Allowance(MAX_STEPS, MAX_HELD_BYTES - FOLDED_BYTES_LIMIT)
    readers = Counter(name for node in graph.nodes for name in names_read(node))
    readers.update(value.name for value in graph.outputs)
    hidden: set[str] = set()  # results of nodes to keep and of all behind them: even if inferred, they must be computed
    for node in graph.nodes:
        empty = {name: types[name] for name in node.outputs if name in types and not types[name].size}
        if empty:
            folded |= {name: np.empty(tensor_type.shape, tensor_type.dtype) for name, tensor_type in empty.items()}
            known |= {name: folded[name] for name in empty}
            node = replace(node, outputs=tuple("" if name in empty else name for name in node.outputs))
            if not any(node.outputs):
                continue
        behind = hidden.intersection(names_read(node))
        if keep(node) or (behind and not _needs_shapes_only(node, behind, types)):
            hidden.update(name for name in node.outputs if name)
            nodes.append(node)
            continue
        values = None if node.op_type in LOOPS else _fold_node(node, known, types, allowance)
        if values is None:
            nodes.append(node)
            continue
        for name, value in values.items():
            known[name] = folded[name] = value
        for name in names_read(node):
            readers[name] -= 1
            if not readers[name] and name in folded and folded[name].size > VALUE_LIMIT:  # only folded nodes read it
                allowance.take(-folded.pop(name).nbytes)
                del known[name]
    return replace(model, graph=_with_constants(with_types(graph, types), nodes, folded))


def _needs_shapes_only(node: Node, behind: set[str], types: dict[str, TensorType]) -> bool:
    """Tell whether inference knows the node's results without the values ``behind`` nodes that are kept."""
    results = [types.get(name) for name in node.outputs if name]
    return all(tensor_type is not None and tensor_type.value is not None for tensor_type in results) and all(
        name in types and types[name].value is None for name in behind
    )


def _fold_node(
    node: Node, known: dict[str, Any], types: dict[str, TensorType], allowance: Allowance
) -> dict[str, Any] | None:
    """Compute the node's outputs by name; None when the node must stay."""
    names = [name for name in node.outputs if name]
    inferred = {name: types[name].value for name in names if name in types and types[name].value is not None}
    if len(inferred) == len(names):
        return inferred
    operator = lookup(node.domain, node.op_type, node.version)
    if operator is None or not operator.stateless or not names_read(node) <= known.keys():
        return None
    if next(subgraphs(node), None) is not None:
        return None  # control flow with a known course was unrolled; the rest may run for ever
    size = sum(known[name].nbytes for name in names_read(node))
    filled = all(position in operator.shape_inputs for position in range(len(node.inputs)))
    if any(_bytes(types.get(name)) > max(size, FILLED_BYTES_LIMIT if filled else GROWTH_BYTES_LIMIT) for name in names):
        return None
    if allowance.held + sum(_bytes(types.get(name)) for name in names) > MAX_HELD_BYTES:
        return None

    try:
        results = compute(node, [known[name] if name else None for name in node.inputs], _no_subgraph, allowance)
        allowance.take(bytes_of(results))
    except CostExceeded:
        return None
    except UserError as error:
        if is_cost_error(error):
            return None
        raise
    if not all(isinstance(value, np.ndarray) for value in results):
        return None  # sequences cannot be constants
    return {name: value for name, value in zip(node.outputs, results, strict=True) if name}


def _no_subgraph(*_: Any) -> list[Any]:
    raise AssertionError("a node without subgraphs runs none")


def _bytes(tensor_type: TensorType | None) -> int:
    return 0 if tensor_type is None else tensor_type.size * tensor_type.dtype.itemsize


def _with_constants(graph: Graph, nodes: Sequence[Node], folded: dict[str, Any]) -> Graph:
    """Return the graph of these nodes and new constants, without nodes and constants that no output needs.

    Every value is among its ``values``, also where its type is not known.
    """
    constants = {**graph.constants, **{name: to_model_dtype(value) for name, value in folded.items()}}
    values = dict(graph.values)
    for name, value in folded.items():
        values[name] = Value(name, name_of_dtype(value.dtype), value.shape)
    for name in (name for node in nodes for name in node.outputs if name and name not in values):
        values[name] = Value(name, "", None)
    return _needed_part(replace(graph, nodes=tuple(nodes), constants=constants, values=values))


def drop_unneeded(model: Model) -> Model:
    """Remove the nodes, constants and values that no output needs."""
    return replace(model, graph=_needed_part(model.graph))


def _needed_part(graph: Graph) -> Graph:
    nodes = needed_nodes(graph, [value.name for value in graph.outputs])
    read = {value.name for value in graph.outputs}.union(*(names_read(node) for node in nodes))
    alive = read.union(*(node.outputs for node in nodes), (value.name for value in graph.inputs))
    return replace(
        graph,
        nodes=tuple(nodes),
        constants={name: value for name, value in graph.constants.items() if name in read},
        values={name: value for name, value in graph.values.items() if name in alive},
        defaults=tuple(name for name in graph.defaults if name in read),
    )
