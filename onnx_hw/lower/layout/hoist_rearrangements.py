"""Removal of rearrangements: the host sends or reads the stream, or a product stores its weights, in another order.

A rearrangement is moved through every operator that commutes with it (``Operator.reordered``): to the host, to a
product whose weights are reordered instead, or into another rearrangement. A rearrangement that also cuts out, repeats
or pads elements remains, but reads its operand from front to back. Where other operators read an input in another
order, the host sends it once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.lower.layout.dead_code import remove_dead_code
from onnx_hw.lower.layout.duplicate_input import duplicate_input
from onnx_hw.lower.layout.propagate_layout import apply_propagation, propagate_order
from onnx_hw.lower.layout.rearrange_layouts import compose, orders_of_operand, orders_of_result
from onnx_hw.ops.rearrange import Rearrange

MAX_CHAINED_REARRANGEMENTS = 3
"""Greatest number of further rearrangements in a chain that one is moved into, where only the last one is removed."""


def move_rearrangements_to_the_border(network: Network) -> Network:
    """Return a network with the same function whose rearrangements are fewer or store less."""
    if not _rearrangements(network):
        return network
    network, changed = _merge_chained(_remove_idle(network)), True
    while changed:
        changed = False
        for name in [node.name for node in _rearrangements(network)]:
            node = next((node for node in network.nodes if node.name == name), None)
            better = None if node is None else _improved(network, node, MAX_CHAINED_REARRANGEMENTS)
            if better is not None:
                network, changed = _remove_idle(better), True
    return verify_network(network, "move_rearrangements_to_the_border")


def _rearrangements(network: Network) -> list[NetworkNode]:
    return [node for node in network.nodes if isinstance(node.operator, Rearrange)]


def _improved(network: Network, node: NetworkNode, further: int) -> Network | None:
    """Return the network in which all rearrangements together store least, and this one at most half as much as before.

    None if no change stores less.

    Args:
        further: number of other rearrangements, one after the other, that may store more until they are improved, too.
    """
    stored, before = _cost(network, node), _costs(network)
    best, least = None, (sum(before.values()), 0)
    for changed in _candidates(network, node) if stored else ():
        costs = _costs(changed)
        if further:
            for name, cost in costs.items():
                if cost > before[name] and sum(costs.values()) - cost < least[0]:
                    changed = _improved(changed, changed.node(name), further - 1) or changed
            costs = _costs(changed)
        cost_and_inputs = sum(costs.values()), len(changed.inputs)
        if 2 * costs[node.name] <= stored and cost_and_inputs < least:
            best, least = changed, cost_and_inputs
    return best


def _candidates(network: Network, node: NetworkNode) -> Iterator[Network]:
    """Yield networks in which the operand or the result of a rearrangement has another order."""
    operator = node.operator
    assert isinstance(operator, Rearrange)
    for tensor, orders in ((node.inputs[0], orders_of_operand), (node.outputs[0], orders_of_result)):
        for order in orders(operator):
            changes = order.changes(network.tensors[tensor].shape)
            if changes and (propagation := propagate_order(network, tensor, order)) is not None:
                yield apply_propagation(network, propagation)
    for order in orders_of_operand(operator):
        if order.changes(operator.operand.shape) and (changed := duplicate_input(network, node, order)) is not None:
            yield changed


def _costs(network: Network) -> dict[str, int]:
    return {node.name: _cost(network, node) for node in _rearrangements(network)}


def _cost(network: Network, node: NetworkNode) -> int:
    """Return the number of elements that a rearrangement stores; 0 where it can be left out."""
    assert isinstance(node.operator, Rearrange)
    return 0 if _is_idle(network, node) else node.operator.held


def _is_idle(network: Network, node: NetworkNode) -> bool:
    """Return whether a node can be left out: it moves nothing, and does not connect an input directly to an output."""
    if not isinstance(node.operator, Rearrange) or not node.operator.moves_nothing:
        return False
    enters = any(boundary.tensor == node.inputs[0] for boundary in network.inputs)
    return not (enters and any(boundary.tensor == node.outputs[0] for boundary in network.outputs))


def _remove_idle(network: Network) -> Network:
    while (idle := next((node for node in network.nodes if _is_idle(network, node)), None)) is not None:
        named = partial(_renamed, old=idle.outputs[0], new=idle.inputs[0])
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


def _renamed(name: str, old: str, new: str) -> str:
    return new if name == old else name


def _merge_chained(network: Network) -> Network:
    """Return the network with one rearrangement instead of two in a row, where it stores no more than both."""
    for node in _rearrangements(network):
        second = network.node(node.name)
        producer = network.producer(second.inputs[0])
        if producer is None or not isinstance(producer[0].operator, Rearrange):
            continue
        assert isinstance(second.operator, Rearrange)
        first, merged = producer[0].operator, compose(producer[0].operator, second.operator)
        alone = len(network.consumers(second.inputs[0])) == 1 and not _leaves(network, second.inputs[0])
        if merged is not None and merged.held <= second.operator.held + alone * first.held:
            origin = tuple(dict.fromkeys((*producer[0].origin, *second.origin)))
            replacement = replace(second, operator=merged, inputs=producer[0].inputs, origin=origin)
            network = remove_dead_code(
                replace(network, nodes=tuple(replacement if n is second else n for n in network.nodes))
            )
    return network


def _leaves(network: Network, tensor: str) -> bool:
    return any(boundary.tensor == tensor for boundary in network.outputs)
