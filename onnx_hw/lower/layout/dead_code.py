"""Removal of the part of a network that no output depends on."""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.ir.network import Network


def remove_dead_code(network: Network) -> Network:
    """Return the network without nodes, inputs and tensors that no output depends on."""
    pending = [boundary.tensor for boundary in network.outputs]
    kept, names = set(pending), set[str]()
    while pending:
        maker = network.producer(pending.pop())
        if maker is not None and maker[0].name not in names:
            names.add(maker[0].name)
            pending += maker[0].inputs
            kept.update((*maker[0].inputs, *maker[0].outputs))
    return replace(
        network,
        nodes=tuple(node for node in network.nodes if node.name in names),
        entries={name: tensor for name, tensor in network.entries.items() if name in kept},
        inputs=tuple(boundary for boundary in network.inputs if boundary.tensor in kept),
        held=tuple(boundary for boundary in network.held if boundary.tensor in kept),
        grids={name: known for name, known in network.grids.items() if name in kept},
    )
