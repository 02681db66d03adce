"""Step functions on loops: two in a row become one, and one that gives what it takes is left out.

The latency of every core on a loop counts once a step. Elsewhere such functions stay: they cost little there, and a
circuit with loadable constants has the same cores whatever its scales are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from onnx_hw.exact.requantization import Requantizer, area
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.lower.layout.dead_code import remove_dead_code
from onnx_hw.ops.requantize import Monotone, Staircase
from onnx_hw.ops.requantizer_circuit import latency_of

MAX_BITS = 16
"""Greatest width, in bits, of integers that a function is compared with."""


def with_joined_steps(network: Network) -> Network:
    """Return the network with as few step functions on its loops as these compute exactly and cheaply."""
    while (joined := _joined_once(network)) is not None:
        network = joined
    return network


def _joined_once(network: Network) -> Network | None:
    """Return the network with one node fewer; None if every node stays."""
    leaving = {boundary.tensor for boundary in network.outputs}
    for node in (node for loop in network.loops for node in loop):
        function, (tensor, *_) = node.operator, node.inputs
        made = network.producer(tensor)
        if not isinstance(function, Monotone) or function.form is not None or made is None:
            continue
        before, _ = made
        if before is node or tensor in leaving or len(network.consumers(tensor)) > 1:
            continue
        if _gives_what_it_takes(function):
            outputs = tuple(node.outputs[0] if name == tensor else name for name in before.outputs)
            return _without(network, node, replace(before, outputs=outputs, origin=_origin(before, node)), before)
        if isinstance(before.operator, Monotone) and (both := _composed(before.operator, function)) is not None:
            joined = replace(node, operator=both, inputs=before.inputs, origin=_origin(before, node))
            return _without(network, before, joined, node)
    return None


def _without(network: Network, dropped: NetworkNode, new: NetworkNode, old: NetworkNode) -> Network:
    """Return the network in which a node is dropped, and another one replaced."""
    nodes = tuple(new if node is old else node for node in network.nodes if node is not dropped)
    return remove_dead_code(replace(network, nodes=nodes))


def _origin(first: NetworkNode, second: NetworkNode) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first.origin, *second.origin)))


def _gives_what_it_takes(function: Monotone) -> bool:
    """Return whether a function gives every integer of its operand unchanged, in the same type."""
    operand = function.operand
    if function.result_type != operand.dtype or operand.dtype.bits > MAX_BITS:
        return False
    integers = np.arange(operand.range[0], operand.range[1] + 1)
    channels = np.repeat(integers[:, np.newaxis], function.exact.channels, axis=1)
    return bool((function.exact(channels) == channels).all())


def _composed(first: Monotone, second: Monotone) -> Staircase | None:
    """Return both functions as one; None where two circuits are smaller than one, or as fast."""
    if first.form is not None:
        return None
    both = Staircase(first.operand, second.exact.after(first.exact), second.result_type)
    if area(both.circuit) > area(first.circuit) + area(second.circuit):
        return None
    return both if _latency(both) < _latency(first) + _latency(second) else None


def _latency(function: Monotone) -> int:
    """Return the least latency of a function's circuits of one step."""
    circuits: list[Requantizer] = [function.circuit]
    if function.values is not None:
        circuits.append(function.values)
    return min(latency_of(circuit, 1) for circuit in circuits)
