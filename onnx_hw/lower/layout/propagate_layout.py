"""Propagation of a new order of one tensor through a network, up to the host and to rearrangements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.lower.layout.rearrange_layouts import with_orders
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.rearrange import Rearrange


@dataclass(frozen=True)
class Propagation:
    """All changes that follow from the new order of one tensor.

    Attributes:
        orders: new orders of tensors, by name; the host sends and reads any order.
        operators: new operators of nodes, by name, including rearrangements, which take and give any order.
    """

    orders: Mapping[str, Permutation]
    operators: Mapping[str, Operator[Any]]


def propagate_order(network: Network, tensor: str, order: Permutation) -> Propagation | None:
    """Return the changes that a new order of a tensor needs; None where an operator has none, or would need two."""
    walk = _Walk(network)
    return walk.propagation() if walk.reorder(tensor, order) and walk.finish() else None


@dataclass
class _Walk:
    """Walk over the tensors whose order changes.

    Attributes:
        orders, operators: the changes so far, as in ``Propagation``.
        waiting: names of tensors whose producer and consumers must still follow.
        settled: node name and port, for every port whose order is decided.
    """

    network: Network
    orders: dict[str, Permutation] = field(default_factory=dict)
    operators: dict[str, Operator[Any]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    settled: set[tuple[str, str]] = field(default_factory=set)

    def reorder(self, tensor: str, order: Permutation) -> bool:
        """Give a tensor an order; return False where it has another one already, or a scale per channel."""
        if tensor in self.orders:
            return self.orders[tensor].alike(order)
        known = self.network.grids.get(tensor)
        if known is not None and known.channels > 1:
            return False
        self.orders[tensor] = order
        self.waiting.append(tensor)
        return True

    def finish(self) -> bool:
        """Change all producers and consumers; return whether that is possible."""
        while self.waiting:
            tensor = self.waiting.pop()
            ends = [(node, node.operator.inputs[k]) for node, k in self.network.consumers(tensor)]
            producer = self.network.producer(tensor)
            if producer is not None:
                ends.append((producer[0], producer[0].operator.outputs[producer[1]]))
            if not all(self._through(node, port, self.orders[tensor]) for node, port in ends):
                return False
        return True

    def _through(self, node: NetworkNode, port: str, order: Permutation) -> bool:
        if isinstance(node.operator, Rearrange) or (node.name, port) in self.settled:
            return True
        reordered = self.operators.get(node.name, node.operator).reordered(port, order)
        if reordered is None:
            return False
        operator, orders = reordered
        if any((node.name, other) in self.settled for other in orders):
            return False
        self.operators[node.name] = operator
        self.settled.update((node.name, other) for other in orders)
        names = ports(node)
        return all(self.reorder(names[other], moved) for other, moved in orders.items())

    def propagation(self) -> Propagation:
        """Return all changes, with those of the rearrangements at the ends."""
        operators = dict(self.operators)
        for node in self.network.nodes:
            if isinstance(node.operator, Rearrange):
                operand, result = self.orders.get(node.inputs[0]), self.orders.get(node.outputs[0])
                if operand is not None or result is not None:
                    operators[node.name] = with_orders(node.operator, operand, result)
        return Propagation(self.orders, operators)


def ports(node: NetworkNode) -> dict[str, str]:
    """Return the name of the tensor at each port of a node."""
    operator = node.operator
    return dict(zip((*operator.inputs, *operator.outputs), (*node.inputs, *node.outputs), strict=True))


def apply_propagation(network: Network, change: Propagation) -> Network:
    """Return the network with all changes."""
    nodes = tuple(replace(n, operator=change.operators.get(n.name, n.operator)) for n in network.nodes)
    entries = dict(network.entries)
    for name in entries.keys() & change.orders:
        entries[name] = replace(entries[name], shape=change.orders[name].shape)

    def reordered(boundaries: tuple[Boundary, ...]) -> tuple[Boundary, ...]:
        return tuple(
            in_order(boundary, change.orders[boundary.tensor]) if boundary.tensor in change.orders else boundary
            for boundary in boundaries
        )

    return replace(
        network,
        nodes=nodes,
        entries=entries,
        inputs=reordered(network.inputs),
        outputs=reordered(network.outputs),
        held=reordered(network.held),
    )


def in_order(boundary: Boundary, order: Permutation) -> Boundary:
    """Return the boundary of the same ONNX value for a tensor in another order."""
    return replace(boundary, order=boundary.order[order.source])
