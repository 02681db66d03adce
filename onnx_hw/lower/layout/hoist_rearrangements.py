"""Rearrangements next to an input or an output become the host's order of the stream; those before weights, theirs.

A rearrangement is moved through whatever commutes with it (``Operator.reordered``): to the host, to a product whose
weights change places instead, or into another rearrangement. What remains of one that also cuts out, repeats or pads,
reads its operand from front to back. Where others read an input in another order, the host sends it once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.lower.layout.dead_code import needed_part
from onnx_hw.lower.layout.duplicate_input import sent_again
from onnx_hw.lower.layout.propagate_layout import spread, with_spread
from onnx_hw.lower.layout.rearrange_layouts import one_of_two, orders_of_operand, orders_of_result
from onnx_hw.ops.rearrange import Rearrange

FURTHER = 3
"""Rearrangements in line through which one is moved to the next, where only the last of them meets the host."""


def move_rearrangements_to_the_border(network: Network) -> Network:
    """The same meaning with fewer rearrangements, or such that store less."""
    if not _rearrangements(network):
        return network
    network, changed = _joined(_without_idle(network)), True
    while changed:
        changed = False
        for name in [node.name for node in _rearrangements(network)]:
            node = next((node for node in network.nodes if node.name == name), None)
            better = None if node is None else _relieved(network, node, FURTHER)
            if better is not None:
                network, changed = _without_idle(better), True
    return verify_network(network, "move_rearrangements_to_the_border")


def _rearrangements(network: Network) -> list[NetworkNode]:
    return [node for node in network.nodes if isinstance(node.operator, Rearrange)]


def _relieved(network: Network, node: NetworkNode, further: int) -> Network | None:
    """The network in which all rearrangements together store least, and this one at most half; None if none is better.

    Args:
        further: in how many others, next to each other, more may be stored at first.
    """
    stored, before = _cost(network, node), _costs(network)
    best, least = None, (sum(before.values()), 0)
    for changed in _changed(network, node) if stored else ():
        costs = _costs(changed)
        if further:
            for name, cost in costs.items():
                if cost > before[name] and sum(costs.values()) - cost < least[0]:
                    changed = _relieved(changed, changed.node(name), further - 1) or changed
            costs = _costs(changed)
        found = sum(costs.values()), len(changed.inputs)
        if 2 * costs[node.name] <= stored and found < least:
            best, least = changed, found
    return best


def _changed(network: Network, node: NetworkNode) -> Iterator[Network]:
    """With other orders of what a rearrangement takes, or gives."""
    operator = node.operator
    assert isinstance(operator, Rearrange)
    for tensor, orders in ((node.inputs[0], orders_of_operand), (node.outputs[0], orders_of_result)):
        for order in orders(operator):
            if order.changes(network.tensors[tensor].shape) and (change := spread(network, tensor, order)) is not None:
                yield with_spread(network, change)
    for order in orders_of_operand(operator):
        if order.changes(operator.operand.shape) and (changed := sent_again(network, node, order)) is not None:
            yield changed


def _costs(network: Network) -> dict[str, int]:
    return {node.name: _cost(network, node) for node in _rearrangements(network)}


def _cost(network: Network, node: NetworkNode) -> int:
    """Elements that a rearrangement stores; 0 where it can be left out."""
    assert isinstance(node.operator, Rearrange)
    return 0 if _is_idle(network, node) else node.operator.held


def _is_idle(network: Network, node: NetworkNode) -> bool:
    """Whether nothing changes without a node; what enters does not leave untouched."""
    if not isinstance(node.operator, Rearrange) or not node.operator.moves_nothing:
        return False
    enters = any(boundary.tensor == node.inputs[0] for boundary in network.inputs)
    return not (enters and any(boundary.tensor == node.outputs[0] for boundary in network.outputs))


def _without_idle(network: Network) -> Network:
    while (idle := next((node for node in network.nodes if _is_idle(network, node)), None)) is not None:
        given, made = idle.inputs[0], idle.outputs[0]
        named = partial(_renamed, made=made, given=given)
        grids = {named(name): known for name, known in network.grids.items()}
        network = replace(
            network,
            nodes=tuple(
                replace(node, inputs=tuple(map(named, node.inputs))) for node in network.nodes if node is not idle
            ),
            outputs=tuple(replace(boundary, tensor=named(boundary.tensor)) for boundary in network.outputs),
            held=tuple(replace(boundary, tensor=named(boundary.tensor)) for boundary in network.held),
            grids=grids,
        )
    return network


def _renamed(name: str, made: str, given: str) -> str:
    return given if name == made else name


def _joined(network: Network) -> Network:
    """With one rearrangement instead of two in line, where together they store no more."""
    for node in _rearrangements(network):
        second = network.node(node.name)
        made = network.producer(second.inputs[0])
        if made is None or not isinstance(made[0].operator, Rearrange):
            continue
        assert isinstance(second.operator, Rearrange)
        first, one = made[0].operator, one_of_two(made[0].operator, second.operator)
        alone = len(network.consumers(second.inputs[0])) == 1 and not _leaves(network, second.inputs[0])
        if one is not None and one.held <= second.operator.held + alone * first.held:
            origin = tuple(dict.fromkeys((*made[0].origin, *second.origin)))
            joined = replace(second, operator=one, inputs=made[0].inputs, origin=origin)
            network = needed_part(replace(network, nodes=tuple(joined if n is second else n for n in network.nodes)))
    return network


def _leaves(network: Network, tensor: str) -> bool:
    return any(boundary.tensor == tensor for boundary in network.outputs)
