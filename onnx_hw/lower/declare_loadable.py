"""Declaration of the weights of a network as loadable: its circuit then depends on their types, not on their values.

Sums get the type that any weights may make, and a requantizer behind them gets a form that holds the constants of other
weights and scales, too. A retrained model, lowered in the same way, then has the same circuit, apart from the contents
of memories; ``declare_like`` gives it the very types of the network that the circuit was built for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from onnx_hw.exact.grid import Grid
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import Problem, UserError
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.requantize import Monotone, NotInForm
from onnx_hw.ops.tensor import Tensor

Declare = Callable[[NetworkNode, bool], "Operator[Any] | None"]
"""Function from a node, and whether its operand has sums of loaded weights, to the operator with loadable constants;
None where its constants stay."""


def declare_loadable(network: Network) -> Network:
    """Return the network with loadable weights and requantizers.

    Raises:
        UserError: constants that depend on weights cannot be loaded; all such nodes at once.
    """

    def declare(node: NetworkNode, of_sums: bool) -> Operator[Any] | None:
        return node.operator.loadable_behind_sums() if of_sums else node.operator.loadable()

    return _declared(network, declare)


def nodes_with_fixed_constants(network: Network) -> list[NetworkNode]:
    """Return the nodes of a declared network whose constants follow from scales, and cannot be loaded."""
    return [node for node in network.nodes if node.operator.has_fixed_constants]


def declare_like(network: Network, built: Network) -> Network:
    """Return a network with the types and forms of the one that a circuit was built for.

    Raises:
        UserError: the networks differ in more than constants that can be loaded; all differences at once.
    """
    _require_same_graph(network, built)
    forms = {node.name: node.operator for node in built.nodes}

    def declare(node: NetworkNode, _of_sums: bool) -> Operator[Any]:
        return node.operator.loadable_like(forms[node.name])

    return _declared(network, declare)


def _declared(network: Network, declare: Declare) -> Network:
    """Return the network with declared operators, and with the types that follow from them."""
    tensors: dict[str, Tensor] = dict(network.entries)
    of_sums: set[str] = set()
    nodes, problems = [], []
    for node in network.nodes:
        try:
            operator = _with_operands(node.operator, [tensors.get(name) for name in node.inputs])
            declared = declare(replace(node, operator=operator), not of_sums.isdisjoint(node.inputs)) or operator
            if isinstance(declared, Monotone) and declared.form is not None:
                _ = declared.circuit
        except (ValueError, NotInForm) as error:
            problems.append(_problem(node, str(error)))
            continue
        sums = declared.macs and declared.has_loaded_constants
        if sums or (not isinstance(declared, Monotone) and not of_sums.isdisjoint(node.inputs)):
            of_sums.update(node.outputs)
        tensors |= dict(zip(node.outputs, declared.results(), strict=True))
        nodes.append(replace(node, operator=declared))
    if problems:
        raise UserError(*problems)
    return verify_network(replace(network, nodes=tuple(nodes)))


def _with_operands(operator: Operator[Any], operands: list[Tensor | None]) -> Operator[Any]:
    """Return an operator with operands of other types; None for one that a loop makes, whose type stays.

    Raises:
        ValueError: the operator cannot take them.
    """
    known = dict(zip(map(id, operator.operands()), operands, strict=True))
    changed: dict[str, Any] = {}
    if operands[0] is not None:
        changed |= operator.tables_over(*operands[0].range)
    for each in fields(operator):  # type: ignore[arg-type]  # all operators are dataclasses
        value = getattr(operator, each.name)
        if isinstance(value, Tensor) and (new := known.get(id(value))) not in (None, value):
            changed[each.name] = new
        elif isinstance(value, tuple) and value and all(isinstance(item, Tensor) for item in value):
            new_items = tuple(known.get(id(item)) or item for item in value)
            if new_items != value:
                changed[each.name] = new_items
    return replace(operator, **changed) if changed else operator  # type: ignore[type-var]


def _problem(node: NetworkNode, reason: str) -> Problem:
    return Problem(
        "not-loadable",
        f"the constants that depend on weights must fit the circuit; {reason}",
        where=node.origin[0] if node.origin else node.name,
        hint="build this model by itself",
        stage="quantize",
    )


def _require_same_graph(network: Network, built: Network) -> None:
    """Raise ``UserError`` unless both networks have the same nodes, connected alike, with the same shapes."""
    problems: list[Problem] = []
    here: Mapping[str, NetworkNode] = {node.name: node for node in network.nodes}
    for node in built.nodes:
        other = here.get(node.name)
        where = node.origin[0] if node.origin else node.name
        if other is None:
            problems.append(_differs(where, f"the circuit has {node.operator!r}, and the model nothing of this name"))
        elif type(other.operator) is not type(node.operator) or not (
            node.operator.describes_loaded or repr(other.operator) == repr(node.operator)
        ):
            problems.append(_differs(where, f"the circuit has {node.operator!r}, and the model {other.operator!r}"))
        elif unequal := _unequal_settings(node.operator, other.operator):
            problems.append(_differs(where, f"the circuit has {unequal}"))
        elif (other.inputs, other.outputs) != (node.inputs, node.outputs):
            problems.append(_differs(where, f"the circuit reads {', '.join(node.inputs)}, the model {other.inputs}"))
        else:
            shapes = [[t.shape for t in (*n.operator.operands(), *n.operator.results())] for n in (node, other)]
            if shapes[0] != shapes[1]:
                problems.append(_differs(where, f"the circuit has shapes {shapes[0]}, and the model {shapes[1]}"))
    names = {node.name for node in built.nodes}
    for node in network.nodes:
        if node.name not in names:
            where = node.origin[0] if node.origin else node.name
            problems.append(_differs(where, f"the model has {node.operator!r}, and the circuit nothing of this name"))
    if problems:
        raise UserError(*problems)


def _unequal_settings(built: Operator[Any], other: Operator[Any]) -> str:
    """Return the first setting in which two operators differ, numbers such as strides; empty without one."""
    for each in fields(built):  # type: ignore[arg-type]  # all operators are dataclasses
        if each.name in built.declared | built.loaded_fields:
            continue
        one, two = getattr(built, each.name), getattr(other, each.name)
        if isinstance(one, Grid) and not isinstance(built, Monotone) and one != two:
            return f"the grid {one!r}, and the model {two!r}"
        numbers = one if isinstance(one, tuple) else (one,)
        if all(isinstance(number, int | str) for number in numbers) and one != two:
            return f"{each.name} {one}, and the model {two}"
    return ""


def _differs(where: str, reason: str) -> Problem:
    return Problem(
        "another-graph",
        f"the model must have the graph of the one that was built; {reason}",
        where=where,
        hint="build this model: `onnx-hw build MODEL --weights loadable`",
        stage="quantize",
    )
