"""Model file ``model.json``: the facts that a host needs, as data that ``onnx_hw_link`` reads without the compiler."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnx_hw.assemble.elaborate import module_names
from onnx_hw.assemble.load_map import load_map
from onnx_hw.assemble.netlist import Netlist, bit_rate_of
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Model, Node
from onnx_hw.onnx.operators.classical_labels import numbered_labels
from onnx_hw.onnx.operators.facts import Effect
from onnx_hw.onnx.operators.registry import facts_of
from onnx_hw.ops.stream_order import UNUSED
from onnx_hw.runtime.build_folder import BuildFolder
from onnx_hw_boards.linked_board import LinkedBoard
from onnx_hw_link.greeting import PROTOCOL
from onnx_hw_link.host_model import DEFAULT_LINK, FILE, FORMAT
from onnx_hw_link.host_operators import DOMAINS, FLOATS, INTEGERS, KNOWN, ROUNDING_MODES, Held
from onnx_hw_link.link import Link, LoadArea

WEIGHTS = "weights.bin"
"""File of the bytes that are loaded into the memories of the chip."""


def write_host_model(
    folder: BuildFolder, note_file: Callable[[str, str], None], design: Design, netlist: Netlist, batch: int
) -> None:
    """Write the file, and note it in the report, where the chip has a link; and what can be loaded into the chip.

    Args:
        batch: number of frames in a sample of the model as written.
    """
    if netlist.link is not None:
        folder.write(FILE, host_model(design, netlist.link, bit_rate_of(netlist), kind_of(netlist), batch))
        note_file("model", FILE)
        if netlist.link.load is not None:
            folder.write(WEIGHTS, load_map(design, module_names(design)).contents)
            note_file("weights", WEIGHTS)


def kind_of(netlist: Netlist) -> str:
    """Return the kind of a board's link; SPI where a controller drives the packets through a shell in Verilog."""
    board = netlist.target.board
    return board.link.kind if isinstance(board, LinkedBoard) else "spi"


def host_model(design: Design, link: Link, baud: int, kind: str = DEFAULT_LINK, batch: int = 1) -> str:
    """Return the text of ``model.json``; a link that is neither the default nor a bare SPI shell names its kind."""
    network = design.network
    edges = {edge.tensor: edge for edge in design.edges()}
    into = {boundary.tensor: boundary for boundary in network.inputs}
    out = list(dict.fromkeys(boundary.tensor for boundary in network.outputs))
    streams_in, values_out = [], []
    for port, (tensor, boundary) in zip(link.inputs, into.items(), strict=True):
        elements = edges[tensor].order.elements.reshape(-1)
        places = np.where(elements == UNUSED, -1, boundary.order[elements])
        streams_in.append({**_stream(port), "value": boundary.onnx_name, "places": places.tolist()})
    for boundary in network.outputs:
        places = np.empty(boundary.order.size, dtype=np.int64)
        places[boundary.order] = edges[boundary.tensor].order.places.reshape(-1)
        values_out.append(
            {
                "value": boundary.onnx_name,
                "stream": out.index(boundary.tensor),
                "places": places.tolist(),
                "shape": list(boundary.onnx_shape),
                "dtype": str(boundary.onnx_dtype),
                **_labels_of(network, boundary.onnx_name),
            }
        )
    data = {
        "format": FORMAT,
        "name": network.name,
        "protocol": PROTOCOL,
        "digest": link.digest.hex(),
        "clock_hz": link.clock_hz,
        "baud": baud,
        **({"link": kind} if baud and kind != DEFAULT_LINK else {}),
        **({"batch": batch} if batch > 1 else {}),
        **({} if link.load is None else {"load": _load(link.load)}),
        "input_buffer": link.input_buffer,
        "output_buffer": link.output_buffer,
        "inputs": [
            {
                "name": value.name,
                "dtype": str(np.dtype(BY_NAME[value.element_type].dtype)),
                "shape": [n if isinstance(n, int) else 1 for n in value.shape or ()],
            }
            for value in network.arguments
        ],
        "outputs": list(network.results),
        "streams_in": streams_in,
        "streams_out": [_stream(port) for port in link.outputs],
        "turns_in": link.input_turns,
        "turns_out": link.output_turns,
        "values_out": values_out,
        **_on_the_host(network),
    }
    return json.dumps(data, indent=None, separators=(",", ":")) + "\n"


def _load(area: LoadArea) -> dict[str, Any]:
    return {
        "size": area.size,
        "address_bits": area.address_bits,
        "word_bytes": area.word_bytes,
        "digest": area.digest.hex(),
        "file": WEIGHTS,
    }


def _stream(port: Any) -> dict[str, Any]:
    return {name: getattr(port, name) for name in ("name", "beats", "width", "bits", "signed")}


def _on_the_host(network: Network) -> dict[str, Any]:
    """Return head and tail as steps, their constants, and the nodes that ``onnx_hw_link`` cannot do."""
    steps: dict[str, list[dict[str, Any]]] = {"head": [], "tail": []}
    constants: dict[str, Any] = {}
    elsewhere: list[str] = []
    for side, model in (("head", network.head), ("tail", network.tail)):
        for node in model.graph.nodes if model is not None else ():
            assert model is not None
            arrays = {name: model.graph.constants[name] for name in node.inputs if name in model.graph.constants}
            if not _is_data(node, arrays, model):
                elsewhere.append(f"{node.op_type} `{node.label}`")
                continue
            attributes = {key: _plain(value) for key, value in node.attributes.items()}
            if node.op_type == "QuantizeLinear" and (bits := _narrow_bits(node.outputs[0], model)):
                attributes["bits"] = bits
            step = {"op": node.op_type, "inputs": node.inputs, "output": node.outputs[0], "attributes": attributes}
            steps[side].append(step)
            for name, array in arrays.items():
                constants[name] = {"dtype": str(array.dtype), "shape": array.shape, "data": array.reshape(-1).tolist()}
    return {**steps, "constants": constants, "elsewhere": elsewhere}


def _labels_of(network: Network, value: str) -> dict[str, Any]:
    """Return the labels that the host gives to the numbers 0, 1, ... of a value, and that of any other number; empty
    without labels.
    """
    names = {value}
    for node in network.tail.graph.nodes if network.tail is not None else ():
        if names.isdisjoint(node.inputs[:1]):
            continue
        if facts_of(node).effect is Effect.KEEPS:
            names.add(node.outputs[0])
        if (known := numbered_labels(node)) is not None:
            return {"labels": list(known[0]), "other_label": known[1]}
    return {}


_UNKNOWN = frozenset({"block_size", "output_dtype", "precision", "saturate"})


def _is_data(node: Node, arrays: dict[str, np.ndarray], model: Model) -> bool:
    """Return whether a node is one that ``onnx_hw_link`` knows, in such a version and with such attributes."""
    if (
        node.op_type not in KNOWN
        or node.domain not in DOMAINS.get(node.op_type, ("",))
        or node.version < KNOWN[node.op_type][0]
        or _UNKNOWN & {*node.attributes}
    ):
        return False
    if node.op_type == "QuantizeLinear" and len(node.inputs) < 3:
        return False
    if node.op_type == "Cast" and node.attributes["to"] not in FLOATS and not _is_cast_of_whole_numbers(node, model):
        return False
    if node.op_type == "Quant" and not _is_known_quant(node, arrays):
        return False
    if node.op_type == "Reshape" and node.inputs[1] not in arrays:
        return False
    plain = all(array.dtype.kind in "iufb" for array in arrays.values())
    values = (model.graph.values.get(name) for name in (*node.inputs, *node.outputs) if name)
    types = {value.element_type for value in values if value is not None}
    return plain and types <= _TYPES[KNOWN[node.op_type][2]]


def _is_cast_of_whole_numbers(node: Node, model: Model) -> bool:
    """Return whether a Cast to integers follows a Round; what other casts make of fractions depends on the version."""
    before = next((other for other in model.graph.nodes if node.inputs[0] in other.outputs), None)
    return node.attributes["to"] in INTEGERS and before is not None and before.op_type == "Round"


def _is_known_quant(node: Node, arrays: Mapping[str, np.ndarray]) -> bool:
    """Return whether a Quant of QONNX has constants, one number of bits, two at least, and rounds to the nearest."""
    bits = arrays.get(node.inputs[3])
    mode = str(node.attributes.get("rounding_mode", "ROUND")).upper()
    constant = all(name in arrays for name in node.inputs[1:])
    return constant and bits is not None and bits.size == 1 and float(bits.reshape(())) >= 2 and mode in ROUNDING_MODES


def _narrow_bits(name: str, model: Model) -> int:
    """Return the width of a value's integers where numpy has no such type; 0 where it has."""
    value = model.graph.values.get(name)
    return BY_NAME[value.element_type].bits if value is not None and value.element_type in _NARROW else 0


_NUMPY = frozenset({"float", "double", "bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))})
"""Element types that numpy has."""

_NARROW = frozenset({"int4", "uint4", "int2", "uint2"})
"""Element types whose integers are held in bytes here."""

_TYPES = {Held.NARROW: _NUMPY | _NARROW, Held.NUMPY: _NUMPY, Held.FLOAT: frozenset({"float", "double"})}


def _plain(value: Any) -> Any:
    """Return an attribute as JSON has it."""
    return list(value) if isinstance(value, tuple) else value.item() if isinstance(value, np.generic) else value
