"""Duplication of an input: the host sends it twice, in two different orders."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from onnx_hw.exact.grid import Grid
from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.lower.layout.dead_code import remove_dead_code
from onnx_hw.lower.layout.propagate_layout import in_order, ports
from onnx_hw.lower.layout.rearrange_layouts import with_orders
from onnx_hw.ops.permutation import Permutation
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.tensor import Tensor


def duplicate_input(network: Network, node: NetworkNode, order: Permutation) -> Network | None:
    """Return the network with a copy of the path from inputs to the operand of a rearrangement, in another order.

    Other rearrangements of the same tensor read the copy, too, where they then store at most half as much. None where
    an operator of the path cannot take such an order, accumulates products or has several outputs.

    Args:
        order: order of its operand in the copy.
    """
    tensor = node.inputs[0]
    path = _InputCopies(network)
    entry = path.copy_of(tensor, order)
    if entry is None:
        return None
    nodes: list[NetworkNode] = []
    for other in network.nodes:
        if other.inputs == (tensor,) and isinstance(other.operator, Rearrange):
            operator = with_orders(other.operator, order, None)
            if 2 * operator.held <= other.operator.held:
                other = replace(other, operator=operator, inputs=(entry,))
                nodes += path.nodes if not any(n in nodes for n in path.nodes) else ()
        nodes.append(other)
    return remove_dead_code(
        replace(
            network,
            nodes=tuple(nodes),
            entries={**network.entries, **path.entries},
            inputs=(*network.inputs, *path.inputs),
            held=(*network.held, *path.held),
            grids={**network.grids, **path.grids},
        )
    )


@dataclass
class _InputCopies:
    """Collection of the copies of all nodes and inputs that a tensor depends on.

    Attributes:
        network: the network that is copied from.
        nodes, entries, inputs, held, grids: the copies, as in a network.
        copies: name and order of the copy of each tensor, by its name.
    """

    network: Network
    nodes: list[NetworkNode] = field(default_factory=list)
    entries: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[Boundary] = field(default_factory=list)
    held: list[Boundary] = field(default_factory=list)
    grids: dict[str, Grid] = field(default_factory=dict)
    copies: dict[str, tuple[str, Permutation]] = field(default_factory=dict)

    def copy_of(self, tensor: str, order: Permutation) -> str | None:
        """Return the name of a tensor's copy in an order; None where there can be none in that order."""
        if tensor in self.copies:
            copy, known = self.copies[tensor]
            return copy if known.alike(order) else None
        copy = self._unused(tensor)
        entering = [boundary for boundary in self.network.inputs if boundary.tensor == tensor]
        if (producer := self.network.producer(tensor)) is not None:
            node, k = producer
            if not self._add_copy(node, node.operator.outputs[k], copy, order):
                return None
        self.inputs += [replace(in_order(boundary, order), tensor=copy) for boundary in entering]
        if entering:
            self.entries[copy] = replace(self.network.entries[tensor], shape=order.shape)
        self.held += [replace(in_order(b, order), tensor=copy) for b in self.network.held if b.tensor == tensor]
        if tensor in self.network.grids:
            self.grids[copy] = self.network.grids[tensor]
        self.copies[tensor] = copy, order
        return copy

    def _add_copy(self, node: NetworkNode, port: str, copy: str, order: Permutation) -> bool:
        """Add a copy of a node whose result has an order; return whether that is possible."""
        reordered = None if node.operator.macs or len(node.outputs) > 1 else node.operator.reordered(port, order)
        if reordered is None:
            return False
        operator, orders = reordered
        names = ports(node)
        inputs = []
        for other in node.operator.inputs:
            operand = names[other]
            name = self.copy_of(operand, orders[other]) if other in orders else operand
            if name is None:
                return False
            inputs.append(name)
        used = {n.name for n in (*self.network.nodes, *self.nodes)}
        name = next(name for k in range(2, len(used) + 3) if (name := f"{node.name}#{k}") not in used)
        self.nodes.append(replace(node, name=name, operator=operator, inputs=tuple(inputs), outputs=(copy,)))
        return True

    def _unused(self, tensor: str) -> str:
        used = {*self.network.tensors, *(copy for copy, _ in self.copies.values())}
        return next(name for k in range(2, len(used) + 3) if (name := f"{tensor}#{k}") not in used)
