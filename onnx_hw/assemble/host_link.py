"""What a design and its host agree on: the value from which the circuit's end of the link is made, and the driver's."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from onnx_hw.assemble.elaborate import edge_names
from onnx_hw.ir.design import Design, Edge
from onnx_hw.timing.prediction import predict
from onnx_hw_link.link import Link, LinkPort


def link_of(design: Design, clock_mhz: float, digest: bytes = bytes(16)) -> Link:
    """The link of a design.

    Args:
        clock_mhz: of the chip.
        digest: 16 bytes that tell the circuit from others.
    """
    edges, names = {edge.tensor: edge for edge in design.edges()}, edge_names(design)
    into = [edges[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in design.network.inputs)]
    out = [edges[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in design.network.outputs)]
    taken, left = _cycles(design, into, out) if max(len(into), len(out)) > 1 else ([], [])
    return Link(
        digest,
        tuple(_port(edge, names[edge.tensor]) for edge in into),
        tuple(_port(edge, names[edge.tensor]) for edge in out),
        round(clock_mhz * 1e6),
        input_turns=_turns(taken),
        output_turns=_turns(left),
    )


def _port(edge: Edge, name: str) -> LinkPort:
    kind = edge.type.dtype
    return LinkPort(name, edge.beats, edge.width, kind.bits, kind.signed)


def _cycles(design: Design, into: list[Edge], out: list[Edge]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """When the beats of a frame are taken and leave where nobody hesitates, by stream.

    In these orders they travel. Nothing can come to a standstill then: whatever a beat has to wait for, in the network
    or because its turn has not come, happens earlier here, or is a beat that is taken at the same time; and of each
    input the circuit holds a beat (``BeatsFromBytes``). Of later frames this holds as of the first one, since within a
    frame they wait for the same.
    """
    found = predict(design, 1, offers={edge.tensor: np.zeros(edge.beats, dtype=np.int64) for edge in into})
    schedules, taken = design.schedules(), []
    for edge in into:
        assert edge.consumer is not None
        node, port = edge.consumer
        engine = next(engine for engine in schedules[node].engines if port in engine.pops)
        taken.append(found.fires[node, engine.name][engine.once + np.asarray(engine.pops[port])])
    return taken, [found.sinks[edge.tensor][: edge.beats] for edge in out]


def _turns(cycles: list[np.ndarray]) -> tuple[tuple[int, int], ...]:
    """(stream, beats) one after the other, by the cycles of their beats."""
    order = sorted((int(cycle), k) for k, of_stream in enumerate(cycles) for cycle in of_stream)
    return tuple((k, sum(1 for _ in beats)) for k, beats in groupby(k for _, k in order))
