"""Cut a network in two at a tensor: what the tensor is made of, and all the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from onnx_hw.ir.network import Boundary, Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.messages.errors import user_error
from onnx_hw.onnx.graph.element_types import element_type_of
from onnx_hw.onnx.graph.fresh_name import unused_name
from onnx_hw.onnx.graph.model import Value


def cut_network(network: Network, tensor: str) -> tuple[Network, Network]:
    """Return two networks, whose meanings one after the other are the whole one's: the second takes the results of the
    first.

    The first one makes the tensor, and does what the host does before; the second one does the rest, and what the host
    does behind. Everything that leaves the one for the other passes under a name of its own, as integers in NHWC order:
    the tensor, and what else the second one reads of the first; and whatever the host hands on.

    Args:
        tensor: one that a node makes and another one reads.

    Raises:
        UserError: it is not such a tensor.
    """
    if network.producer(tensor) is None or not network.consumers(tensor):
        raise user_error(
            "cut",
            f"a network must be cut at a tensor that one of its nodes makes and another one reads, not at `{tensor}`",
            stage="arguments",
        )
    before = _made_of(network, tensor)
    first = tuple(node for node in network.nodes if node.name in before)
    second = tuple(node for node in network.nodes if node.name not in before)
    first_tensors = {name: None for node in first for name in node.outputs}
    read = {name for node in second for name in node.inputs}
    leaving = [boundary for boundary in network.outputs if boundary.tensor in first_tensors]
    across = [*leaving, *_crossing(network, [name for name in first_tensors if name in read], leaving)]
    entering = [boundary for boundary in network.inputs if boundary.tensor in read]
    handed = list(dict.fromkeys([*(boundary.onnx_name for boundary in entering), *network.handed]))
    if not network.arguments:  # the host is unknown: the second part takes all of its arguments
        handed = []
    one = replace(
        _part(network, first),
        outputs=tuple(across),
        tail=None,
        results=(*(boundary.onnx_name for boundary in across), *handed),
        handed=tuple(handed),
    )
    other = replace(
        _part(network, second),
        inputs=(*{boundary.tensor: boundary for boundary in across if boundary.tensor in read}.values(), *entering),
        outputs=tuple(boundary for boundary in network.outputs if boundary.tensor not in first_tensors),
        head=None,
        handed=(*network.handed, *(boundary.onnx_name for boundary in leaving)) if network.arguments else (),
        arguments=_arguments(network, [*across, *entering], network.handed) if network.arguments else (),
    )
    return verify_network(one, "cut_network"), verify_network(other, "cut_network")


def _made_of(network: Network, tensor: str) -> set[str]:
    """Return the names of the nodes that a tensor depends on."""
    names: set[str] = set()
    pending = [tensor]
    while pending:
        producer = network.producer(pending.pop())
        if producer is not None and producer[0].name not in names:
            names.add(producer[0].name)
            pending += producer[0].inputs
    return names


def _part(network: Network, nodes: Sequence[NetworkNode]) -> Network:
    """Return the network of some of the nodes, with what is known of their tensors."""
    produced = {name for node in nodes for name in node.outputs}
    kept = produced | {name for node in nodes for name in node.inputs}
    return replace(
        network,
        nodes=tuple(nodes),
        entries={name: network.tensors[name] for name in kept - produced},
        inputs=_of(network.inputs, kept),
        grids={name: grid for name, grid in network.grids.items() if name in kept},
        held=_of(network.held, kept),
    )


def _of(boundaries: Iterable[Boundary], tensors: Collection[str]) -> tuple[Boundary, ...]:
    return tuple(boundary for boundary in boundaries if boundary.tensor in tensors)


def _crossing(network: Network, tensors: Sequence[str], leaving: Sequence[Boundary]) -> list[Boundary]:
    """Return new boundaries for those tensors that do not leave the network anyway."""
    parts = [part.graph for part in (network.head, network.tail) if part is not None]
    known = {name for graph in parts for name in (*graph.values, *graph.constants)}
    known |= {boundary.onnx_name for boundary in (*network.inputs, *network.outputs)}
    known |= {*(value.name for value in network.arguments), *network.handed, *network.results}
    boundaries = []
    for name in tensors:
        if any(boundary.tensor == name for boundary in leaving):
            continue
        type_, onnx_name = network.tensors[name], unused_name(name, known)
        known.add(onnx_name)
        shape = (1, *type_.shape)
        boundaries.append(Boundary(name, onnx_name, shape, np.dtype(np.int64), np.arange(type_.size)))
    return boundaries


def _arguments(network: Network, boundaries: Iterable[Boundary], handed: Iterable[str]) -> tuple[Value, ...]:
    """Return the inputs of the second part, under the names that the first one has for them."""
    head_outputs = {value.name: value for value in network.head.graph.outputs} if network.head is not None else {}
    known = {value.name: value for value in network.arguments} | head_outputs
    for b in boundaries:
        known.setdefault(b.onnx_name, Value(b.onnx_name, element_type_of(b.onnx_dtype).name, b.onnx_shape))
    return tuple(known[name] for name in dict.fromkeys([*(b.onnx_name for b in boundaries), *handed]))
