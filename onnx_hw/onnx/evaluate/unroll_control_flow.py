"""Unrolling of control flow: an If with a known condition becomes its branch, a Loop or Scan the copies of its body.

Known is what shape inference computes; so a loop over the length of an axis is unrolled as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnx_hw.onnx.evaluate.infer_shapes import infer_graph
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators.dtypes import name_of_dtype
from onnx_hw.onnx.operators.tensor_type import TensorType

#: Greatest number of nodes to which a graph may grow by unrolling.
NODE_LIMIT = 30_000

#: Number of iterations for which a loop that ends by its condition is tried.
TRIAL_LIMIT = 1000

SCAN_VERSION = 9
"""Opset from which on a Scan has no axis of samples."""

Types = Mapping[str, TensorType]


def unroll(model: Model) -> Model:
    """Replace those If, Loop and Scan nodes of which it is known how they will run, nested ones included.

    A loop that would make the graph too large stays.
    """
    graph = model.graph
    while True:
        unrolled = _unroll_nodes(graph)
        if unrolled is graph:
            return replace(model, graph=graph)
        graph = unrolled


def _unroll_nodes(graph: Graph) -> Graph:
    if not any(node.op_type in _REPLACEMENTS and not node.domain for node in graph.nodes):
        return graph
    types = infer_graph(graph, {}, [])
    copier = Copier(_all_names(graph))
    nodes: list[Node] = []
    changed = False
    for node in graph.nodes:
        replaced = None if node.domain else _REPLACEMENTS.get(node.op_type, _keep)(node, types, copier)
        if replaced is None or len(nodes) + len(replaced) > NODE_LIMIT:
            nodes.append(node)
        else:
            nodes.extend(replaced)
            changed = True
    if not changed:
        return graph
    return replace(
        graph,
        nodes=tuple(nodes),
        constants={**graph.constants, **copier.constants},
        values={**graph.values, **copier.values},
    )


@dataclass
class Copier:
    """Copier of the nodes of subgraphs into the graph around them, under names that nothing else has.

    Attributes:
        taken: every name of the graph.
        constants, values: what the copies add to the graph.
    """

    taken: set[str]
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    def fresh(self, name: str) -> str:
        """Return the name, followed by a number if it is taken."""
        candidate, number = name, 1
        while candidate in self.taken:
            candidate, number = f"{name}_{number}", number + 1
        self.taken.add(candidate)
        return candidate

    def constant(self, name: str, array: np.ndarray, element_type: str = "") -> str:
        """Add a new constant; return its name."""
        own = self.fresh(name)
        self.constants[own] = array
        self.values[own] = Value(own, element_type or name_of_dtype(array.dtype), array.shape)
        return own

    def copy(self, graph: Graph, prefix: str, arguments: Sequence[str]) -> tuple[list[Node], list[str]]:
        """Copy the graph's nodes; return the copies and the names of its outputs. ``arguments`` replace its inputs."""
        names = dict(zip((value.name for value in graph.inputs), arguments, strict=True))
        for name, array in graph.constants.items():
            known = graph.values.get(name)
            names[name] = self.constant(f"{prefix}/{name}", array, known.element_type if known else "")
        nodes = []
        for node in graph.nodes:
            names.update({name: self.fresh(f"{prefix}/{name}") for name in node.outputs if name})
            copied = rename_values(node, names)
            nodes.append(replace(copied, name=f"{prefix}/{node.name}" if node.name else ""))
        return nodes, [names.get(value.name, value.name) for value in graph.outputs]


def rename_values(node: Node, names: Mapping[str, str]) -> Node:
    """Rename the values that a node reads and writes, also where its subgraphs read them."""
    attributes = {
        key: _rename_graph(value, names) if isinstance(value, Graph) else value
        for key, value in node.attributes.items()
    }
    return replace(
        node,
        inputs=tuple(names.get(name, name) for name in node.inputs),
        outputs=tuple(names.get(name, name) for name in node.outputs),
        attributes=attributes,
    )


def _rename_graph(graph: Graph, names: Mapping[str, str]) -> Graph:
    own = {value.name for value in graph.inputs}.union(graph.constants, *(node.outputs for node in graph.nodes))
    visible = {name: new for name, new in names.items() if name not in own}
    return replace(
        graph,
        nodes=tuple(rename_values(node, visible) for node in graph.nodes),
        outputs=tuple(replace(value, name=visible.get(value.name, value.name)) for value in graph.outputs),
    )


def _keep(*_: Any) -> None:
    """Keep the node of any other operator."""


def _branch(node: Node, types: Types, copier: Copier) -> list[Node] | None:
    """Return the nodes of the branch that an If will take."""
    condition = _value(types, node.inputs[0])
    if condition is None:
        return None
    taken = node.attributes["then_branch" if bool(condition.reshape(())) else "else_branch"]
    nodes, results = copier.copy(taken, node.label, [])
    return [*nodes, *_name_results(node, node.outputs, results)]


def _iterations(node: Node, types: Types, copier: Copier) -> list[Node] | None:
    """Repeat the body of a Loop for every iteration that will run; None when their number is not known."""
    body: Graph = node.attributes["body"]
    inputs = [*node.inputs, "", ""][: max(len(node.inputs), 2)]
    trips, going = (_value(types, name) if name else None for name in inputs[:2])
    if (inputs[0] and trips is None) or (inputs[1] and going is None) or not (inputs[0] or inputs[1]):
        return None
    carried = inputs[2:]
    plan = _plan(body, types, carried, None if trips is None else int(trips.reshape(())), going)
    scanned = node.outputs[len(carried) :]
    if plan is None or (plan == 0 and any(scanned)):
        return None
    nodes: list[Node] = []
    scans: list[list[str]] = [[] for _ in scanned]
    true = copier.constant(f"{node.label}/condition", np.array(True))
    for k in range(plan):
        prefix = f"{node.label}/{k}"
        iteration = copier.constant(f"{prefix}/iteration", np.array(k, np.int64))
        copied, results = copier.copy(body, prefix, [iteration, true, *carried])
        nodes.extend(copied)
        carried = results[1 : 1 + len(carried)]
        for scan, name in zip(scans, results[1 + len(carried) :], strict=True):
            scan.append(name)
    for output, scan in zip(scanned, scans, strict=True):
        nodes.extend(_stack(node, output, scan, copier) if output else ())
    return [*nodes, *_name_results(node, node.outputs[: len(carried)], carried)]


def _scanned(node: Node, types: Types, copier: Copier) -> list[Node] | None:
    """Repeat the body of a Scan for every slice of its data; None when their number is not known."""
    body: Graph = node.attributes["body"]
    count = node.attributes["num_scan_inputs"]
    carried, data = list(node.inputs[:-count]), node.inputs[-count:]
    known = [types.get(name) for name in data]
    axes = node.attributes.get("scan_input_axes") or (0,) * count
    lengths = {None if of is None else of.shape[axis] for of, axis in zip(known, axes, strict=True)}
    steps = lengths.pop()
    if node.version < SCAN_VERSION or steps is None or lengths or not 0 < steps * max(len(body.nodes), 1) <= NODE_LIMIT:
        return None
    backward = node.attributes.get("scan_input_directions") or (0,) * count
    results = node.outputs[len(carried) :]
    nodes: list[Node] = []
    scans: list[list[str]] = [[] for _ in results]
    for k in range(steps):
        prefix = f"{node.label}/{k}"
        slices = []
        for name, axis, turned in zip(data, axes, backward, strict=True):
            place = copier.constant(f"{prefix}/index", np.array(steps - 1 - k if turned else k, np.int64))
            slices.append(copier.fresh(f"{prefix}/{name}"))
            nodes.append(_node(node, "Gather", (name, place), slices[-1], axis=axis))
        copied, made = copier.copy(body, prefix, [*carried, *slices])
        nodes.extend(copied)
        carried = made[: len(carried)]
        for scan, name in zip(scans, made[len(carried) :], strict=False):
            scan.append(name)
    output_axes = node.attributes.get("scan_output_axes") or (0,) * len(results)
    output_backward = node.attributes.get("scan_output_directions") or (0,) * len(results)
    for output, scan, axis, turned in zip(results, scans, output_axes, output_backward, strict=True):
        nodes.extend(_stack(node, output, scan[::-1] if turned else scan, copier, axis) if output else ())
    return [*nodes, *_name_results(node, node.outputs[: len(carried)], carried)]


def _plan(body: Graph, types: Types, carried: Sequence[str], trips: int | None, going: np.ndarray | None) -> int | None:
    """Return the number of iterations of a loop; None when it is not known, or too large to unroll the loop."""
    if going is not None and not bool(going.reshape(())):
        return 0
    start = [types.get(name) for name in carried]
    if trips is not None:
        condition = _iteration_types(
            body, types, None, [None if tensor_type is None else _valueless(tensor_type) for tensor_type in start]
        )[0]
        if condition is not None and condition.value is not None and bool(condition.value.reshape(())):
            return trips if trips * max(len(body.nodes), 1) <= NODE_LIMIT else None
    state = start
    most = min(TRIAL_LIMIT, NODE_LIMIT // max(len(body.nodes), 1))
    for k in range(most if trips is None else min(trips, most)):
        condition, *after = _iteration_types(body, types, k, state)
        if condition is None or condition.value is None:
            return None
        if not bool(condition.value.reshape(())):
            return k + 1
        state = after[: len(carried)]
    return trips if trips is not None and trips <= most else None


def _iteration_types(
    body: Graph, types: Types, k: int | None, state: Sequence[TensorType | None]
) -> list[TensorType | None]:
    """Infer the types of a body's outputs in iteration ``k``, or in any (None)."""
    iteration = TensorType(np.dtype(np.int64), (), None if k is None else np.array(k, np.int64))
    true = TensorType(np.dtype(np.bool_), (), np.array(True))  # or else the body would not run
    names = [value.name for value in body.inputs]
    input_types = {
        name: tensor_type
        for name, tensor_type in zip(names, [iteration, true, *state], strict=True)
        if tensor_type is not None
    }
    visible = {**types, **infer_graph(body, types, [], input_types)}
    return [visible.get(value.name) for value in body.outputs]


def _valueless(tensor_type: TensorType) -> TensorType:
    return TensorType(tensor_type.dtype, tensor_type.shape)


def _stack(node: Node, output: str, parts: Sequence[str], copier: Copier, axis: int = 0) -> Iterator[Node]:
    """Make the nodes that put the values of all iterations on a new axis, by default the first one."""
    raised = [copier.fresh(f"{part}/row") for part in parts]
    for part, row in zip(parts, raised, strict=True):
        if node.version >= 13:
            axes = copier.constant(f"{row}/axes", np.array([axis], np.int64))
            yield _node(node, "Unsqueeze", (part, axes), row)
        else:
            yield _node(node, "Unsqueeze", (part,), row, axes=(axis,))
    yield _node(node, "Concat", tuple(raised), output, axis=axis)


def _name_results(node: Node, outputs: Sequence[str], results: Sequence[str]) -> Iterator[Node]:
    """Give the results the names that the node's outputs had."""
    for output, result in zip(outputs, results, strict=False):
        if output:
            yield _node(node, "Identity", (result,), output)


def _node(origin: Node, op_type: str, inputs: tuple[str, ...], output: str, **attributes: Any) -> Node:
    return Node(f"{origin.label}/{op_type}", op_type, "", origin.version, inputs, (output,), attributes, origin.where)


def _value(types: Types, name: str) -> np.ndarray | None:
    known = types.get(name)
    return None if known is None else known.value


def _all_names(graph: Graph) -> set[str]:
    names = {value.name for value in graph.inputs} | set(graph.constants)
    return names.union(*(node.outputs for node in graph.nodes))


_REPLACEMENTS = {"If": _branch, "Loop": _iterations, "Scan": _scanned}

MEANINGS = {
    ("", "If"): "as the branch of a constant condition",
    ("", "Loop"): "as copies of its body, for a constant number of steps; equal steps become one cell",
    ("", "Scan"): "as copies of its body; equal steps become one cell",
}
"""Description of what control flow becomes for the table of operators, by domain and name."""
