"""An input that the host sends twice, each time in an order of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from onnx_hw.exact.grid import Grid
from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.lower.layout.dead_code import needed_part
from onnx_hw.lower.layout.propagate_layout import in_order, ports
from onnx_hw.lower.layout.rearrange_layouts import rearranging
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.tensor import Tensor


def sent_again(network: Network, node: NetworkNode, order: Permutation) -> Network | None:
    """With another way from inputs to the operand of a rearrangement, which then comes in this order.

    Other rearrangements of the same tensor take that way, too, where they store half as much behind it. None where
    there is more on the way than operators that have an order like it and accumulate no products.
    """
    tensor = node.inputs[0]
    way = _Way(network)
    entry = way.to(tensor, order)
    if entry is None:
        return None
    nodes: list[NetworkNode] = []
    for other in network.nodes:
        if other.inputs == (tensor,) and isinstance(other.operator, Rearrange):
            operator = rearranging(other.operator, order, None)
            if 2 * operator.held <= other.operator.held:
                other = replace(other, operator=operator, inputs=(entry,))
                nodes += way.nodes if not any(n in nodes for n in way.nodes) else ()
        nodes.append(other)
    return needed_part(
        replace(
            network,
            nodes=tuple(nodes),
            entries={**network.entries, **way.entries},
            inputs=(*network.inputs, *way.inputs),
            held=(*network.held, *way.held),
            grids={**network.grids, **way.grids},
        )
    )


@dataclass
class _Way:
    """Collects copies of what leads to a tensor."""

    network: Network
    nodes: list[NetworkNode] = field(default_factory=list)
    entries: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[Boundary] = field(default_factory=list)
    held: list[Boundary] = field(default_factory=list)
    grids: dict[str, Grid] = field(default_factory=dict)
    copies: dict[str, tuple[str, Permutation]] = field(default_factory=dict)

    def to(self, tensor: str, order: Permutation) -> str | None:
        """The name of a copy in an order; None if there can be none, or another one is there already."""
        if tensor in self.copies:
            copy, known = self.copies[tensor]
            return copy if known.alike(order) else None
        copy = self._unused(tensor)
        entering = [boundary for boundary in self.network.inputs if boundary.tensor == tensor]
        made = self.network.producer(tensor)
        if made is not None and not self._copied(made[0], made[0].operator.outputs[made[1]], copy, order):
            return None
        self.inputs += [replace(in_order(boundary, order), tensor=copy) for boundary in entering]
        if entering:
            self.entries[copy] = replace(self.network.entries[tensor], shape=order.shape)
        self.held += [replace(in_order(b, order), tensor=copy) for b in self.network.held if b.tensor == tensor]
        if tensor in self.network.grids:
            self.grids[copy] = self.network.grids[tensor]
        self.copies[tensor] = copy, order
        return copy

    def _copied(self, node: NetworkNode, port: str, copy: str, order: Permutation) -> bool:
        found = None if node.operator.macs or len(node.outputs) > 1 else node.operator.reordered(port, order)
        if found is None:
            return False
        operator, orders = found
        names = ports(node)
        inputs = []
        for other in node.operator.inputs:
            before = names[other]
            name = self.to(before, orders[other]) if other in orders else before
            if name is None:
                return False
            inputs.append(name)
        taken = {n.name for n in (*self.network.nodes, *self.nodes)}
        name = next(name for k in range(2, len(taken) + 3) if (name := f"{node.name}#{k}") not in taken)
        self.nodes.append(replace(node, name=name, operator=operator, inputs=tuple(inputs), outputs=(copy,)))
        return True

    def _unused(self, tensor: str) -> str:
        taken = {*self.network.tensors, *(copy for copy, _ in self.copies.values())}
        return next(name for k in range(2, len(taken) + 3) if (name := f"{tensor}#{k}") not in taken)
