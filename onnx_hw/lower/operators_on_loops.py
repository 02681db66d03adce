"""Operators on loops over time: each in the form that gives a row before it takes the next one."""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.ir.network import Network


def with_operators_on_loops(network: Network) -> Network:
    """Return the network with operators that work row by row on its loops, where they have such a form."""
    names = {node.name for loop in network.loops for node in loop}
    if not names:
        return network
    nodes = (replace(node, operator=node.operator.on_loop()) if node.name in names else node for node in network.nodes)
    return replace(network, nodes=tuple(nodes))
