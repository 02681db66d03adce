"""Values of one frame that golden and the host know, by the names and in the layout of the model; used by link 2.

The layouts are taken from ``Network.held``, which the importer wrote down: as mere names. A wrong one cannot hide. Each
is a permutation, and every value is compared with what the model makes of the values before it, which were compared
before; the first of them are what the host read from the samples. So if a value's layout is wrong, the value differs
where it is made, whatever reads it later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_hw.ir import golden
from onnx_hw.ir.network import Boundary, Network
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model


@dataclass(frozen=True)
class KnownFrame:
    """Known values of one frame.

    Attributes:
        held: values of the hardware's tensors, by name, in the shape of the ONNX value: int64, or the numbers that they
            stand for where the ONNX value has those.
        host: values of head and tail, in the model's dtypes, by name.
        outputs: outputs of the graph as a user gets them; empty where they are not tensors.
        torn: names of values that two tensors hold differently, such as an input that is sent twice.
    """

    held: Mapping[str, np.ndarray]
    host: Mapping[str, Any]
    outputs: Mapping[str, Any]
    torn: tuple[str, ...] = ()


def known_values(network: Network, frame: Mapping[str, np.ndarray]) -> KnownFrame:
    """Compute head, golden and tail for one frame.

    Args:
        frame: sample by graph input, in the model's dtypes.
    """
    stacked = {name: array[np.newaxis] for name, array in frame.items()}
    wanted = {boundary.tensor for boundary in (*network.held, *network.outputs)}
    walked = golden.walk(network, golden.integers_of(network, stacked))
    tensors = {name: array for name, array in walked if name in wanted}
    each = [
        (boundary.onnx_name, boundary.numbers(_in_the_model(boundary, tensors[boundary.tensor])))
        for boundary in network.held
    ]
    held = dict(each)
    torn = tuple(name for name, value in each if not np.array_equal(held[name], value))
    host: dict[str, Any] = {}
    if network.head is not None:
        _run(network.head, frame, host)
    if network.tail is not None:
        leaving = {b.onnx_name: _in_the_model(b, tensors[b.tensor]).astype(b.onnx_dtype) for b in network.outputs}
        _run(network.tail, {**frame, **host, **leaving}, host)
    out = {boundary.tensor: tensors[boundary.tensor] for boundary in network.outputs}
    try:
        outputs = {name: array[0] for name, array in golden.outputs_of(network, out, stacked).items()}
    except UserError:  # sequences: they have no place in a file, but a circuit can be built
        outputs = {}
    return KnownFrame(held, host, outputs, torn)


def find_misplaced(network: Network) -> str:
    """Return the name of a value whose recorded layout is not a permutation of its elements; empty if all are."""
    for boundary in (*network.held, *network.inputs, *network.outputs):
        places = np.arange(network.tensors[boundary.tensor].size)
        if not np.array_equal(np.sort(boundary.order), places) or np.prod(boundary.onnx_shape) != places.size:
            return boundary.onnx_name
    return ""


def _in_the_model(boundary: Boundary, streamed: np.ndarray) -> np.ndarray:
    """Return the integers of one frame of a tensor, (1, height, width, channels), as the ONNX value, int64."""
    array = np.empty(boundary.order.size, dtype=np.int64)
    array[boundary.order] = streamed.reshape(-1)
    return array.reshape(boundary.onnx_shape)


def _run(part: Model, values: Mapping[str, Any], computed: dict[str, Any]) -> None:
    """Run head or tail, and store every value that it computes."""
    given = {value.name: values[value.name] for value in part.graph.inputs}
    reference.run(part, given, observe=computed.__setitem__)
