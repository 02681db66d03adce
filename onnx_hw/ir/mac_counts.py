"""Share of a model's multiply-accumulates that the circuit does: counted on both sides of the border."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from onnx_hw.onnx.evaluate.macs import macs_of

if TYPE_CHECKING:
    from onnx_hw.ir.network import Network
    from onnx_hw.onnx.graph.model import Node


def products_on_host(network: Network) -> Iterator[tuple[Node, int | None]]:
    """Return the nodes of head and tail that multiply and accumulate, and how often; None for an unknown number."""
    for part in (part for part in (network.head, network.tail) if part is not None):
        for node in part.graph.nodes:
            count = macs_of(node, part.graph)
            if count != 0:
                yield node, count


def macs_in_hardware(network: Network) -> float | None:
    """Return the share, 0..1, or None for a model without multiply-accumulates. An unknown number counts once."""
    circuit = macs_of_circuit(network)
    host = sum(1 if count is None else count for _, count in products_on_host(network))
    return circuit / (circuit + host) if circuit + host else None


def macs_of_circuit(network: Network) -> int:
    """Return the multiply-accumulates of the ONNX nodes that became hardware, as ONNX means them: without zeros that a
    circuit adds between groups.
    """
    names = {name for node in network.nodes for name in node.origin}
    return sum(count for name, count in network.macs.items() if name in names)
