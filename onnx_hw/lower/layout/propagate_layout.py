"""What else must change where one tensor of a network comes in another order, up to whatever takes any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.lower.layout.rearrange_layouts import rearranging
from onnx_hw.ops.operator import Operator
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.rearrange import Rearrange


@dataclass(frozen=True)
class Spread:
    """Everything that changes.

    Attributes:
        orders: of tensors, by name; the host takes and gives any.
        operators: of nodes, by name: rearrangements, which take and give any order, included.
    """

    orders: Mapping[str, Permutation]
    operators: Mapping[str, Operator[Any]]


def spread(network: Network, tensor: str, order: Permutation) -> Spread | None:
    """None where an operator has no other order, or would need two."""
    walk = _Walk(network)
    return walk.found() if walk.reorder(tensor, order) and walk.finish() else None


@dataclass
class _Walk:
    network: Network
    orders: dict[str, Permutation] = field(default_factory=dict)
    operators: dict[str, Operator[Any]] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    settled: set[tuple[str, str]] = field(default_factory=set)

    def reorder(self, tensor: str, order: Permutation) -> bool:
        """Whether a tensor can have this order, as far as it has one by now."""
        if tensor in self.orders:
            return self.orders[tensor].alike(order)
        known = self.network.grids.get(tensor)
        if known is not None and known.channels > 1:
            return False
        self.orders[tensor] = order
        self.waiting.append(tensor)
        return True

    def finish(self) -> bool:
        while self.waiting:
            tensor = self.waiting.pop()
            ends = [(node, node.operator.inputs[k]) for node, k in self.network.consumers(tensor)]
            made = self.network.producer(tensor)
            if made is not None:
                ends.append((made[0], made[0].operator.outputs[made[1]]))
            if not all(self._through(node, port, self.orders[tensor]) for node, port in ends):
                return False
        return True

    def _through(self, node: NetworkNode, port: str, order: Permutation) -> bool:
        if isinstance(node.operator, Rearrange) or (node.name, port) in self.settled:
            return True
        found = self.operators.get(node.name, node.operator).reordered(port, order)
        if found is None:
            return False
        operator, orders = found
        if any((node.name, other) in self.settled for other in orders):
            return False
        self.operators[node.name] = operator
        self.settled.update((node.name, other) for other in orders)
        names = ports(node)
        return all(self.reorder(names[other], moved) for other, moved in orders.items())

    def found(self) -> Spread:
        operators = dict(self.operators)
        for node in self.network.nodes:
            if isinstance(node.operator, Rearrange):
                operand, result = self.orders.get(node.inputs[0]), self.orders.get(node.outputs[0])
                if operand is not None or result is not None:
                    operators[node.name] = rearranging(node.operator, operand, result)
        return Spread(self.orders, operators)


def ports(node: NetworkNode) -> dict[str, str]:
    """The tensor at each port."""
    operator = node.operator
    return dict(zip((*operator.inputs, *operator.outputs), (*node.inputs, *node.outputs), strict=True))


def with_spread(network: Network, change: Spread) -> Network:
    """The network with all of it."""
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
    """The same ONNX value on a tensor in another order."""
    return replace(boundary, order=boundary.order[order.source])
