"""Evaluation of nodes and graphs with the operators' functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnx_hw.messages.errors import UserError, user_error
from onnx_hw.onnx.graph.dependencies import names_read, needed_nodes
from onnx_hw.onnx.graph.loops import TimeLoop, delayed_value, delayed_values, is_delay, loops_of, loops_together
from onnx_hw.onnx.graph.model import Graph, Node
from onnx_hw.onnx.operators.allowance import STEPS_PER_CALL, Allowance, CostExceeded, bytes_of, hold, limited
from onnx_hw.onnx.operators.dtypes import Array, to_compute_dtype
from onnx_hw.onnx.operators.registry import Call, OnnxOperator, node_location, operator_of
from onnx_hw.onnx.operators.run_loop import ComputeStep, delayed, run_loop
from onnx_hw.onnx.operators.tensor_type import TensorType

COST_CODE = "too-much-to-compute"
"""Code of the problem that a node would need too much memory or time."""

Observer = Callable[[str, Any], None]
GraphRunner = Callable[[Graph, Sequence[Any]], list[Any]]


def tagged_constants(graph: Graph) -> dict[str, Array]:
    """Return the graph's constants in the dtypes that operators compute with."""
    return {
        name: to_compute_dtype(array, graph.values[name].element_type) if name in graph.values else array
        for name, array in graph.constants.items()
    }


def evaluate(
    graph: Graph,
    feeds: Mapping[str, Any],
    targets: Sequence[str],
    *,
    outer: Mapping[str, Any] | None = None,
    observe: Observer | None = None,
    allowance: Allowance | None = None,
    instead: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compute values of a graph, and nothing that they do not depend on.

    Each value is let go after its last reader, so that memory holds only what is still needed.

    Args:
        feeds: a value for each graph input.
        targets: names of the values to compute.
        outer: the values of the scopes around a subgraph.
        observe: a function that is called with every fed or computed value.
        allowance: the allowance of the graph around a subgraph.
        instead: by name, the replacement of a value after it was computed and observed.

    Raises:
        UserError: an operator is not known, cannot compute its inputs, or would need too much memory or time.
        KeyError: the graph has no value of that name.
    """
    nodes = needed_nodes(graph, targets)
    loops = loops_of(nodes)
    if loops:
        nodes = loops_together(nodes)
    allowance = allowance or Allowance()
    replaced = instead or {}
    values: dict[str, Any] = {**(outer or {}), **tagged_constants(graph), **feeds}
    if observe is not None:
        for name, value in feeds.items():
            observe(name, value)
    read_by = [names_read(node) | ({delayed_value(node)} if is_delay(node) else set()) for node in nodes]
    last = {name: number for number, names in enumerate(read_by) for name in names}
    last |= dict.fromkeys(targets, len(nodes))
    held: dict[str, int] = {}

    def run_graph(subgraph: Graph, inputs: Sequence[Any]) -> list[Any]:
        names = [value.name for value in subgraph.inputs]
        if len(inputs) != len(names):
            raise ValueError(f"the subgraph must have {len(inputs)} inputs, not {len(names)}")
        results = [value.name for value in subgraph.outputs]
        inner = evaluate(subgraph, dict(zip(names, inputs, strict=True)), results, outer=values, allowance=allowance)
        return [inner[name] for name in results]

    def run_node(node: Node, inputs: Sequence[Any]) -> list[Any]:
        return compute(node, inputs, run_graph, allowance)

    ran: dict[str, Array] = {}
    for number, node in enumerate(nodes):
        if is_delay(node):
            of = delayed_value(node)
            if of not in replaced and of not in values and of not in ran:
                ran |= _run(loops[node.outputs[0]], values, replaced, lambda node: computed_in_steps(node, run_node))
            whole = next(known[of] for known in (replaced, values, ran) if of in known)
            results = [delayed(values[node.inputs[0]], whole, node.attributes["axis"])]
        else:
            results = run_node(node, [values[name] if name else None for name in node.inputs])
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
        except CostExceeded as reason:
            raise cost_error(node, reason) from reason
    allowance.take(-sum(held.values()))
    return {name: values[name] for name in targets}


def _run(
    loop: TimeLoop,
    values: Mapping[str, Any],
    replaced: Mapping[str, Any],
    computing: Callable[[Node], ComputeStep],
) -> dict[str, Array]:
    """Run a loop; return what it delays, by name. Replaced values are what the other nodes get, step by step."""

    def of_step(name: str, value: Any, step: int) -> Any:
        return np.take(replaced[name], [step], loop.axis) if name in replaced else value

    return run_loop(loop, values.__getitem__, computing, sorted(delayed_values(loop.delays)), of_step)


def computed_in_steps(
    node: Node, compute_node: Callable[[Node, Sequence[Any]], Sequence[Any]] | None = None
) -> ComputeStep:
    """Return a function that computes a node of a loop over time, again and again with inputs of the same types.

    Args:
        compute_node: function that computes the node the first time, and checks it; ``compute`` by default. A node with
            subgraphs is always computed by it.
    """
    operator, first = operator_of(node), compute_node or compute
    arguments, count = operator.bind(node), len(node.outputs)
    checked = False

    def in_step(inputs: Sequence[Any]) -> Sequence[Any]:
        nonlocal checked
        if operator.takes_call or not checked:
            checked = True
            return first(node, inputs)
        with np.errstate(all="ignore"):
            result = operator.function(*inputs, **arguments)
        return list(result)[:count] if isinstance(result, tuple) else [np.asarray(result)]

    return in_step


def _no_subgraphs(*_: Any) -> list[Any]:
    raise ValueError("it has a subgraph, which cannot be run here")


def compute(
    node: Node, inputs: Sequence[Any], run_graph: GraphRunner = _no_subgraphs, allowance: Allowance | None = None
) -> list[Any]:
    """Compute all outputs that one node names.

    Args:
        inputs: one value per input of the node; None for an omitted one.
        run_graph: the function that computes a subgraph of the node; without it the node must have no subgraph.
        allowance: the allowance for its cost; a whole one by default.

    Raises:
        UserError: the operator is not known, an attribute or a value does not fit, or the node would cost more.
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
    except CostExceeded as reason:
        raise cost_error(node, reason) from reason
    except (ValueError, IndexError, TypeError, ArithmeticError, MemoryError) as reason:
        described = ", ".join(_shown(value) for value in inputs)
        raise user_error(
            "operator-failed",
            f"{node.op_type} must be able to compute ({described}): {reason}",
            where=node_location(node),
            stage="capability",
        ) from reason
    outputs = list(result) if isinstance(result, tuple) else [result]
    if len(outputs) < len(node.outputs):
        raise user_error(
            "output-count",
            f"{operator!r} has {len(outputs)} outputs, not {len(node.outputs)}",
            where=node_location(node),
            stage="capability",
        )
    return [np.asarray(value) if isinstance(value, np.generic) else value for value in outputs[: len(node.outputs)]]


def _check_cost(operator: OnnxOperator, inputs: Sequence[Any], arguments: dict[str, Any], allowance: Allowance) -> None:
    """Spend the steps of the results' elements, their types being known; raise ``CostExceeded`` for too large ones."""
    arrays = [x for x in inputs if isinstance(x, np.ndarray)]
    results: Sequence[Any] = ()
    if operator.types is not None and not operator.rule_takes_call:
        types = [TensorType(x.dtype, x.shape, x) if isinstance(x, np.ndarray) else None for x in inputs]
        try:
            inferred = operator.types(*types, **arguments)
            results = inferred if isinstance(inferred, tuple) else (inferred,)
        except (ValueError, IndexError, TypeError, ArithmeticError, AttributeError):
            pass  # the function raises it with a better message
    for result in results:
        if result is not None:
            hold(result.shape, result.dtype)
    allowance.spend(
        STEPS_PER_CALL + sum(x.size for x in arrays) + sum(result.size for result in results if result is not None)
    )


def cost_error(node: Node, reason: CostExceeded) -> UserError:
    """Make the error for a node that would cost too much."""
    return user_error(
        COST_CODE,
        f"{node.op_type} `{node.label}` would cost too much: {reason}",
        where=node_location(node),
        hint="use smaller shapes (--dim NAME=NUMBER) or fewer iterations",
        stage="capability",
    )


def is_cost_error(error: UserError) -> bool:
    """Tell whether a node was not computed because of its cost."""
    return any(problem.code == COST_CODE for problem in error.problems)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    return "-" if value is None else type(value).__name__
