"""Which rearrangements of a network the host could spare it."""

from __future__ import annotations

import numpy as np

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ops.add import Add
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.rearrange import Rearrange
from onnx_hw.ops.requantize import Monotone

ELEMENT_BY_ELEMENT = (Add, Lookup, Monotone, Multiply, Rearrange)


def rearranged_at_the_border(network: Network, *, mirrors: bool = False) -> list[NetworkNode]:
    """Rearrangements next to an input or output that read their operand in another order than the one it comes in.

    Between them and the host stands nothing, or what treats every element alike.

    Args:
        mirrors: whether there may be pads that read a few rows twice, which no order puts in line.
    """
    found = {node.name: node for node in (*_behind_inputs(network), *_before_outputs(network))}
    return [
        node
        for node in found.values()
        if isinstance(node.operator, Rearrange)
        and not _is_read_in_order(node.operator)
        and not (mirrors and _is_local(node.operator))
    ]


def _behind_inputs(network: Network) -> list[NetworkNode]:
    reached, found = {boundary.tensor for boundary in network.inputs}, []
    for node in network.nodes:
        if isinstance(node.operator, ELEMENT_BY_ELEMENT) and reached.issuperset(node.inputs):
            reached.update(node.outputs)
            found.append(node)
    return found


def _before_outputs(network: Network) -> list[NetworkNode]:
    reached, found = {boundary.tensor for boundary in network.outputs}, []
    for node in reversed(network.nodes):
        if isinstance(node.operator, ELEMENT_BY_ELEMENT) and reached.issuperset(node.outputs):
            reached.update(tensor for tensor in node.inputs if len(network.consumers(tensor)) == 1)
            found.append(node)
    return found


def _is_read_in_order(operator: Rearrange) -> bool:
    """Whether elements are read, for the first time, in the order in which they come."""
    first = np.unique(operator.source[operator.source >= 0], return_index=True)[1]
    return bool((np.diff(first) > 0).all())


def _is_local(operator: Rearrange) -> bool:
    """Whether never more than four rows of the operand lie between what has come and what is still wanted."""
    read = operator.source[operator.source >= 0]
    row = operator.operand.size // operator.operand.shape[0]
    still = np.minimum.accumulate(read[::-1])[::-1]
    return bool((np.maximum.accumulate(read) - still <= 4 * row).all())
