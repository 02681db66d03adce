"""What a design and its host agree on: the value from which the circuit's end of the link is made, and the driver's."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from onnx_hw.assemble import edge_names
from onnx_hw.design import Design, Edge
from onnx_hw.errors import user_error
from onnx_hw.timing.prediction import predict
from onnx_hw_link.link import Link, Port


def link_of(design: Design, clock_mhz: float, digest: bytes = bytes(16)) -> Link:
    """The link of a design.

    Args:
        clock_mhz: of the chip.
        digest: 16 bytes that tell the circuit from others.

    Raises:
        UserError: there are several streams into the circuit.
    """
    edges, names = {edge.tensor: edge for edge in design.edges()}, edge_names(design)
    into = [edges[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in design.network.inputs)]
    out = [edges[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in design.network.outputs)]
    if len(into) > 1:
        raise user_error(
            "several-inputs",
            f"over a link, a circuit must have one input; this one has {len(into)}",
            where=", ".join(f"`{edge.tensor}`" for edge in into),
            hint="choose a bare chip, or join the inputs in the model",
            stage="capability",
        )
    return Link(
        digest,
        tuple(_port(edge, names[edge.tensor]) for edge in into),
        tuple(_port(edge, names[edge.tensor]) for edge in out),
        round(clock_mhz * 1e6),
        output_turns=_turns(design, into, out) if len(out) > 1 else (),
    )


def _port(edge: Edge, name: str) -> Port:
    kind = edge.type.dtype
    return Port(name, edge.beats, edge.width, kind.bits, kind.signed)


def _turns(design: Design, into: list[Edge], out: list[Edge]) -> tuple[tuple[int, int], ...]:
    """The order in which the beats of a frame leave where nobody hesitates.

    Taken in this order and no sooner, none of them waits for a later one: what a beat needs was there before it.
    """
    times = predict(design, 1, offers={edge.tensor: np.zeros(edge.beats, dtype=np.int64) for edge in into}).sinks
    leaving = sorted((int(cycle), k) for k, edge in enumerate(out) for cycle in times[edge.tensor][: edge.beats])
    return tuple((k, sum(1 for _ in beats)) for k, beats in groupby(k for _, k in leaving))
