"""Computing nodes and graphs with the operators' functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.onnx.graph.dependencies import needed_nodes, reads
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.allowance import CALL, Allowance, TooMuch, bytes_of, hold, limited
from onnx_hw.onnx.operators.dtypes import Array, tagged
from onnx_hw.onnx.operators.registry import Call, OnnxOperator, operator_of, place
from onnx_hw.onnx.operators.tensor_type import TensorType

TOO_MUCH = "too-much-to-compute"
"""Code of the problem that a node would need too much room or time."""

Observer = Callable[[str, Any], None]
GraphRunner = Callable[[Graph, Sequence[Any]], list[Any]]


def tagged_constants(graph: Graph) -> dict[str, Array]:
    """The graph's constants in the dtypes that operators compute with."""
    return {
        name: tagged(array, graph.values[name].element_type) if name in graph.values else array
        for name, array in graph.constants.items()
    }


def evaluate(
    graph: Graph,
    feeds: Mapping[str, Any],
    wanted: Sequence[str],
    *,
    outer: Mapping[str, Any] | None = None,
    observe: Observer | None = None,
    allowance: Allowance | None = None,
    instead: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The wanted values of a graph; what they do not depend on is not computed.

    Each value is let go after its last reader, so that memory holds only what is still needed.

    Args:
        feeds: a value for each graph input.
        outer: the values of the scopes around a subgraph.
        observe: is shown every fed or computed value.
        allowance: of the graph around a subgraph.
        instead: by name, what takes the place of a value after it was computed and observed.

    Raises:
        UserError: an operator is not known, cannot compute what it is given, or would need too much room or time.
        KeyError: a wanted value is none of the graph's.
    """
    nodes = needed_nodes(graph, wanted)
    allowance = allowance or Allowance()
    replaced = instead or {}
    values: dict[str, Any] = {**(outer or {}), **tagged_constants(graph), **feeds}
    if observe is not None:
        for name, value in feeds.items():
            observe(name, value)
    read_by = [reads(node) for node in nodes]
    last = {name: number for number, names in enumerate(read_by) for name in names}
    last |= dict.fromkeys(wanted, len(nodes))
    held: dict[str, int] = {}

    def run_graph(subgraph: Graph, inputs: Sequence[Any]) -> list[Any]:
        names = [value.name for value in subgraph.inputs]
        if len(inputs) != len(names):
            raise ValueError(f"the subgraph must have {len(inputs)} inputs, not {len(names)}")
        results = [value.name for value in subgraph.outputs]
        inner = evaluate(subgraph, dict(zip(names, inputs, strict=True)), results, outer=values, allowance=allowance)
        return [inner[name] for name in results]

    for number, node in enumerate(nodes):
        results = compute(node, [values[name] if name else None for name in node.inputs], run_graph, allowance)
        for name, value in zip(node.outputs, results, strict=True):
            if name:
                if observe is not None:
                    observe(name, value)
                if name in last:
                    values[name] = replaced.get(name, value)
                    held[name] = bytes_of(values[name])
        del results
        for name in read_by[number]:
            if last[name] == number:
                values.pop(name, None)
                allowance.take(-held.pop(name, 0))
        try:
            allowance.take(sum(held[name] for name in node.outputs if name in held))
        except TooMuch as reason:
            raise too_much(node, reason) from reason
    allowance.take(-sum(held.values()))
    return {name: values[name] for name in wanted}


def _no_subgraphs(*_: Any) -> list[Any]:
    raise ValueError("it has a subgraph, which cannot be run here")


def compute(
    node: Node, inputs: Sequence[Any], run_graph: GraphRunner = _no_subgraphs, allowance: Allowance | None = None
) -> list[Any]:
    """The outputs of one node, as many as it names.

    Args:
        inputs: one value per input of the node; None for an omitted one.
        run_graph: computes a subgraph of the node; without it the node must have none.
        allowance: what it may cost; a whole one by default.

    Raises:
        UserError: the operator is not known, an attribute does not fit, or the values do not, or it would cost more.
    """
    operator = operator_of(node)
    arguments = operator.bind(node)
    allowance = allowance or Allowance()
    try:
        with np.errstate(all="ignore"), limited(allowance):  # infinities and NaN are values like others
            _check_cost(operator, inputs, arguments, allowance)
            if operator.takes_call:
                arguments["call"] = Call(node, run_graph)
            result = operator.function(*inputs, **arguments)
    except TooMuch as reason:
        raise too_much(node, reason) from reason
    except (ValueError, IndexError, TypeError, ArithmeticError, MemoryError) as reason:
        given = ", ".join(_shown(value) for value in inputs)
        raise user_error(
            "operator-failed",
            f"{node.op_type} must be able to compute ({given}): {reason}",
            where=place(node),
            stage="capability",
        ) from reason
    outputs = list(result) if isinstance(result, tuple) else [result]
    if len(outputs) < len(node.outputs):
        raise user_error(
            "output-count",
            f"{operator!r} has {len(outputs)} outputs, not {len(node.outputs)}",
            where=place(node),
            stage="capability",
        )
    return [np.asarray(value) if isinstance(value, np.generic) else value for value in outputs[: len(node.outputs)]]


def _check_cost(operator: OnnxOperator, inputs: Sequence[Any], arguments: dict[str, Any], allowance: Allowance) -> None:
    """That the results, whose types are known beforehand, are not too large; the elements are paid for.

    Raises:
        TooMuch: they are.
    """
    arrays = [x for x in inputs if isinstance(x, np.ndarray)]
    results: Sequence[Any] = ()
    if operator.types is not None and not operator.rule_takes_call:
        types = [TensorType(x.dtype, x.shape, x) if isinstance(x, np.ndarray) else None for x in inputs]
        try:
            found = operator.types(*types, **arguments)
            results = found if isinstance(found, tuple) else (found,)
        except (ValueError, IndexError, TypeError, ArithmeticError, AttributeError):
            pass  # the function says it better
    for result in results:
        if result is not None:
            hold(result.shape, result.dtype)
    allowance.spend(CALL + sum(x.size for x in arrays) + sum(result.size for result in results if result is not None))


def too_much(node: Node, reason: TooMuch) -> UserError:
    """The error for a node that would cost too much."""
    return user_error(
        TOO_MUCH,
        f"{node.op_type} `{node.label}` asks for too much: {reason}",
        where=place(node),
        hint="smaller shapes (--dim NAME=NUMBER), fewer iterations",
        stage="capability",
    )


def is_too_much(error: UserError) -> bool:
    """Whether a node could not be computed for what it costs."""
    return any(problem.code == TOO_MUCH for problem in error.problems)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return "-" if value is None else type(value).__name__
