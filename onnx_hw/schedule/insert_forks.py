"""Give every tensor exactly one consumer: a Fork where there are several."""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.ops.fork import Fork

FORK_NAME = "fork "
"""First letters of the name of a fork, before that of its tensor."""


def insert_forks(network: Network) -> Network:
    """Insert forks: streams are consumed once; a tensor read twice, or read and also an output of the network, is
    copied.

    The copies are called ``{tensor}/0``, ``{tensor}/1``, ...; their grids follow them.
    """
    grids = dict(network.grids)
    forks: dict[str, NetworkNode] = {}  # by the tensor that is copied
    renamed: dict[tuple[str, int], str] = {}  # (consumer, input index) -> copy
    leaving: dict[str, str] = {boundary.tensor: boundary.tensor for boundary in network.outputs}

    def fork(tensor: str) -> None:
        readers = [(node.name, k) for node, k in network.consumers(tensor)]
        count = len(readers) + (tensor in leaving)
        if count < 2:
            return
        copies = tuple(f"{tensor}/{k}" for k in range(count))
        forks[tensor] = NetworkNode(f"{FORK_NAME}{tensor}", Fork(network.tensors[tensor], count), (tensor,), copies)
        renamed.update(zip(readers, copies, strict=False))
        for copy in copies:
            if tensor in grids:
                grids[copy] = grids[tensor]
        if tensor in leaving:
            leaving[tensor] = copies[-1]

    entering = [boundary.tensor for boundary in network.inputs]
    for tensor in (*entering, *(tensor for node in network.nodes for tensor in node.outputs)):
        fork(tensor)
    nodes = [forks[tensor] for tensor in entering if tensor in forks]
    for node in network.nodes:
        inputs = tuple(renamed.get((node.name, k), name) for k, name in enumerate(node.inputs))
        nodes.append(replace(node, inputs=inputs))
        nodes += (forks[tensor] for tensor in node.outputs if tensor in forks)
    forked = replace(
        network,
        nodes=tuple(nodes),
        outputs=tuple(replace(boundary, tensor=leaving[boundary.tensor]) for boundary in network.outputs),
        grids=grids,
    )
    return verify_network(forked, "insert_forks")
