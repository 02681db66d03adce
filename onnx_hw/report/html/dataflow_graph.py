"""Dataflow graph of a page: its nodes (inputs, cores, outputs) and the streams between them.

The page's script lays it out; without scripts, the nodes are a list.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx_hw.ops.folding import spelled
from onnx_hw.report.model import CoreSection, DesignSection, Fifo, PortSection


@dataclass(frozen=True)
class GraphNode:
    """Node of the graph.

    Attributes:
        identifier: its name in the page, such as ``node-3``.
        name: name of the core or of the tensor.
        words: what it is: the operator with its folding, or ``input`` or ``output``.
        core: the core; None for an input or output.
        number: position of the core among all cores, from 0; None for an input or output.
        share: part of the interval in which the core is at work, 0..1.
        is_bottleneck: whether it sets the interval.
        streams: descriptions of its output streams, or of the stream of an input or output.
    """

    identifier: str
    name: str
    words: str
    core: CoreSection | None = None
    number: int | None = None
    share: float = 0.0
    is_bottleneck: bool = False
    streams: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphEdge:
    """Stream from one node to another.

    Attributes:
        start, end: identifiers of the nodes.
        label: depth of its FIFO, and how full it was in the simulation; empty without a FIFO.
        lines: the same in words, for the pointer.
    """

    start: str
    end: str
    label: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class DataflowGraph:
    """Graph of a design: nodes in the order of the data, and edges."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


def dataflow_graph(design: DesignSection, io: tuple[PortSection, ...]) -> DataflowGraph:
    """Return the graph of a design with ``io``, the streams into and out of the circuit."""
    fifos, ports = {fifo.edge: fifo for fifo in design.fifos}, {port.tensor: port for port in io if port.tensor}
    produced = {tensor for core in design.nodes for tensor in core.outputs}
    consumed = {tensor for core in design.nodes for tensor in core.inputs}
    entering = dict.fromkeys(tensor for core in design.nodes for tensor in core.inputs if tensor not in produced)
    leaving = [tensor for core in design.nodes for tensor in core.outputs if tensor not in consumed]
    starts = {tensor: f"input-{k}" for k, tensor in enumerate(entering)}
    ends = {tensor: [f"output-{k}"] for k, tensor in enumerate(leaving)}
    for number, core in enumerate(design.nodes):
        starts |= dict.fromkeys(core.outputs, f"node-{number}")
        for tensor in core.inputs:
            ends.setdefault(tensor, []).append(f"node-{number}")

    def port(tensor: str) -> tuple[str, ...]:
        there = ports.get(tensor)
        return () if there is None else (f"{there.lanes} × {there.dtype}, {there.beats_per_frame:,} beats a frame",)

    nodes = [
        *(GraphNode(starts[tensor], tensor, "input", streams=port(tensor)) for tensor in entering),
        *(
            GraphNode(
                f"node-{number}",
                core.name,
                f"{core.operator} {spelled(core.folding)}",
                core,
                number,
                core.cycles / design.interval_cycles,
                core is design.pacing_core,
                tuple(", ".join(_stream_lines(fifos[tensor])) for tensor in core.outputs if tensor in fifos),
            )
            for number, core in enumerate(design.nodes)
        ),
        *(GraphNode(ends[tensor][0], tensor, "output", streams=port(tensor)) for tensor in leaving),
    ]
    edges = tuple(
        GraphEdge(
            starts[tensor],
            end,
            _label(fifos[tensor]) if tensor in fifos else "",
            (tensor, *(_stream_lines(fifos[tensor]) if tensor in fifos else port(tensor))),
        )
        for tensor, followers in ends.items()
        for end in followers
    )
    return DataflowGraph(tuple(nodes), edges)


def _label(fifo: Fifo) -> str:
    return f"FIFO {fifo.depth:,}" if fifo.max_fill is None else f"{fifo.max_fill:,} of {fifo.depth:,}"


def _stream_lines(fifo: Fifo) -> tuple[str, ...]:
    filled = "" if fifo.max_fill is None else f", at most {fifo.max_fill:,} full in the simulation"
    return (
        f"{fifo.lanes} × {fifo.dtype}",
        f"{fifo.beats_per_frame:,} beats a frame",
        f"FIFO of {fifo.depth:,}{filled}",
    )
