"""Removal of the part of a network that no output depends on."""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.ir.network import Network, NetworkNode


def remove_dead_code(network: Network) -> Network:
    """Return the network without nodes, inputs and tensors that no output depends on."""
    needed = {boundary.tensor for boundary in network.outputs}
    nodes: list[NetworkNode] = []
    for node in reversed(network.nodes):
        if not needed.isdisjoint(node.outputs):
            nodes.append(node)
            needed.update(node.inputs)
    kept = needed.union(*(node.outputs for node in nodes))
    return replace(
        network,
        nodes=tuple(reversed(nodes)),
        entries={name: tensor for name, tensor in network.entries.items() if name in kept},
        inputs=tuple(boundary for boundary in network.inputs if boundary.tensor in kept),
        held=tuple(boundary for boundary in network.held if boundary.tensor in kept),
        grids={name: known for name, known in network.grids.items() if name in kept},
    )
