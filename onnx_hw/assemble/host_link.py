"""Facts that a design and its host agree on: from one value both the circuit's and the driver's end are made."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from onnx_hw.assemble.elaborate import edge_names, module_names
from onnx_hw.assemble.load_map import load_map
from onnx_hw.ir.design import Design, Edge
from onnx_hw.timing.prediction import predict
from onnx_hw_link.link import Link, LinkPort


def link_of(design: Design, clock_mhz: float, digest: bytes = bytes(16)) -> Link:
    """Return the link of a design at a clock of the chip; ``digest``, 16 bytes, identifies the circuit."""
    edges, names = {edge.tensor: edge for edge in design.edges()}, edge_names(design)
    into = [edges[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in design.network.inputs)]
    out = [edges[tensor] for tensor in dict.fromkeys(boundary.tensor for boundary in design.network.outputs)]
    loads = load_map(design, module_names(design))
    taken, left = _cycles(design, into, out) if max(len(into), len(out)) > 1 else ([], [])
    return Link(
        digest,
        tuple(_port(edge, names[edge.tensor]) for edge in into),
        tuple(_port(edge, names[edge.tensor]) for edge in out),
        round(clock_mhz * 1e6),
        input_turns=_turns(taken),
        output_turns=_turns(left),
        load=loads.area if loads.regions else None,
    )


def _port(edge: Edge, name: str) -> LinkPort:
    kind = edge.type.dtype
    return LinkPort(name, edge.beats, edge.width, kind.bits, kind.signed)


def _cycles(design: Design, into: list[Edge], out: list[Edge]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the cycles in which the beats of a frame are taken and leave where neither end waits, by stream.

    The beats travel in these orders. Nothing can come to a standstill then: everything that a beat has to wait for, in
    the network or because its turn has not come, happens earlier here, or is a beat that is taken at the same time; and
    of each input the circuit holds a beat (``BeatsFromBytes``). This is true of later frames as of the first one, since
    they wait for the same within a frame.
    """
    predicted = predict(design, 1, offers={edge.tensor: np.zeros(edge.beats, dtype=np.int64) for edge in into})
    schedules, taken = design.schedules(), []
    for edge in into:
        assert edge.consumer is not None
        node, port = edge.consumer
        engine = next(engine for engine in schedules[node].engines if port in engine.pops)
        taken.append(predicted.fires[node, engine.name][engine.once + np.asarray(engine.pops[port])])
    return taken, [predicted.sinks[edge.tensor][: edge.beats] for edge in out]


def _turns(cycles: list[np.ndarray]) -> tuple[tuple[int, int], ...]:
    """Return (stream, beats) one after the other, by the cycles of their beats."""
    order = sorted((int(cycle), k) for k, of_stream in enumerate(cycles) for cycle in of_stream)
    return tuple((k, sum(1 for _ in beats)) for k, beats in groupby(k for _, k in order))
