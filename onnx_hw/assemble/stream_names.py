"""Names of the streams of a network for its user: those of the model's inputs and outputs, without numbers of wires."""

from __future__ import annotations

import re
from collections.abc import Iterable

from onnx_hw.assemble.elaborate import edge_names
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Boundary
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import LINEAR_EFFECTS, SCALE_EFFECTS, Effect

MAX_LENGTH = 40
"""Greatest number of characters of a name; of a longer one the end remains, which tells streams apart."""

_UNIT_EFFECTS = SCALE_EFFECTS | LINEAR_EFFECTS | {Effect.KEEPS, Effect.BOUNDS}
"""Effects of operators that leave a value what it is, but for its unit, its order and its ends."""


def stream_names(design: Design) -> dict[str, str]:
    """Return the name of each stream at the border of a network, by its wire: unique among inputs, and among outputs.

    An input has the name of the model's input that becomes it by a change of unit, such as QuantizeLinear; an output
    that of the last value that it becomes in this way. Otherwise it is the name of the value that the stream carries.
    """
    network, wires = design.network, edge_names(design)
    names: dict[str, str] = {}
    for side, host in ((network.inputs, network.head), (network.outputs, network.tail)):
        first = {boundary.tensor: boundary for boundary in reversed(side)}
        streams = list(dict.fromkeys(boundary.tensor for boundary in side))
        wanted = [_identifier(_farthest(first[tensor], host, forward=side is network.outputs)) for tensor in streams]
        names |= zip((wires[tensor] for tensor in streams), _unique(wanted), strict=True)
    return names


def _farthest(boundary: Boundary, host: Model | None, *, forward: bool) -> str:
    """Return the name of the value farthest from the hardware that differs from the stream only in unit and order."""
    name, nodes = boundary.onnx_name, host.graph.nodes if host is not None else ()
    constants = host.graph.constants if host is not None else {}
    while True:
        steps = [node for node in nodes if (name in node.inputs if forward else name in node.outputs)]
        data = [value for value in steps[0].inputs if value and value not in constants] if len(steps) == 1 else []
        if len(data) != 1 or len(steps[0].outputs) != 1 or not _changes_unit(steps[0]):
            return name
        name = steps[0].outputs[0] if forward else data[0]


def _changes_unit(node: Node) -> bool:
    return facts_of(node).effect in _UNIT_EFFECTS


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[-MAX_LENGTH:].strip("_").lower() or "data"


def _unique(names: Iterable[str]) -> list[str]:
    """Return the names, with a number behind each that has been there before."""
    unique: list[str] = []
    for name in names:
        number, tried = 1, name
        while tried in unique:
            number += 1
            tried = f"{name}_{number}"
        unique.append(tried)
    return unique
