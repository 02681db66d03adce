"""Put a Gearbox on every edge whose ends have chosen different numbers of lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_hw.network import Network, Node
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.operator import Folding


def insert_gearboxes(network: Network, foldings: Mapping[str, Folding]) -> tuple[Network, dict[str, Folding]]:
    """The network with gearboxes, and the foldings of all its nodes. A gearbox's output is called ``{tensor}·{lanes}``.

    Inputs of the network have no producer: their stream is as wide as their consumer wants it.
    """
    tensors, quantization, chosen = dict(network.tensors), dict(network.quantization), dict(foldings)
    nodes: list[Node] = []
    lanes_of: dict[str, int] = {}
    for node in network.nodes:
        wanted = foldings[node.name].in_lanes
        inputs = []
        for tensor in node.inputs:
            given = lanes_of.get(tensor, wanted)
            if given != wanted:
                converted = f"{tensor}·{wanted}"
                gearbox = Node(f"gearbox {converted}", Gearbox(network.tensors[tensor]), (tensor,), (converted,))
                nodes.append(gearbox)
                tensors[converted] = network.tensors[tensor]
                if tensor in quantization:
                    quantization[converted] = quantization[tensor]
                chosen[gearbox.name] = Folding(given, wanted)
                tensor = converted
            inputs.append(tensor)
        nodes.append(replace(node, inputs=tuple(inputs)))
        lanes_of.update(dict.fromkeys(node.outputs, foldings[node.name].out_lanes))
    return replace(network, nodes=tuple(nodes), tensors=tensors, quantization=quantization), chosen
