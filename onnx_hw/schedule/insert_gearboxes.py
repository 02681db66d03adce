"""Put gearboxes, of lanes or of pixels, on every edge whose ends have chosen different orders of beats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ops.convert_order import conversion
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.stream_order import Order


def insert_gearboxes(network: Network, foldings: Mapping[str, Folding]) -> tuple[Network, dict[str, Folding]]:
    """Insert the gearboxes; return the network, and the foldings of all its nodes.

    A gearbox's output is called ``{tensor}·{lanes}``, with several pixels in a beat ``{tensor}·{lanes}×{pixels}``, in
    tiles ``{tensor}·{lanes}/{tile}``.

    Inputs of the network have no producer: they come in the order in which their consumer wants them.
    """
    grids, chosen = dict(network.grids), dict(foldings)
    nodes: list[NetworkNode] = []
    sent: dict[str, Order] = {}
    for node in network.nodes:
        sent.update(zip(node.outputs, node.operator.output_orders(foldings[node.name]), strict=True))
    made = {boundary.tensor for boundary in network.inputs}
    later: dict[str, list[NetworkNode]] = {}  # by a tensor that is fed back, what converts it
    for node in network.nodes:
        inputs = []
        for tensor, wanted in zip(node.inputs, node.operator.input_orders(foldings[node.name]), strict=True):
            base = tensor
            for operator, folding in conversion(sent.get(tensor, wanted), wanted):
                converted = f"{base}·{_spelled(operator.output_orders(folding)[0])}"
                core = NetworkNode(f"{type(operator).__name__.lower()} {converted}", operator, (tensor,), (converted,))
                (nodes if base in made else later.setdefault(base, [])).append(core)
                if base in grids:
                    grids[converted] = grids[base]
                chosen[core.name] = folding
                tensor = converted
            inputs.append(tensor)
        nodes.append(replace(node, inputs=tuple(inputs)))
        made.update(node.outputs)
        for tensor in node.outputs:
            nodes += later.get(tensor, ())
    return replace(network, nodes=tuple(nodes), grids=grids), chosen


def _spelled(order: Order) -> str:
    pixels = f"×{order.pixels}" if order.pixels > 1 else ""
    return f"{order.lanes}{pixels}" + (f"/{order.tile}" if order.tile != order.pixels else "")
