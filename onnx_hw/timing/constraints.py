"""Who waits for whom in a design: rules 2 to 5 of the firing law (``prediction.py``) as bounds between tracks."""

from __future__ import annotations

from collections.abc import Mapping

from onnx_hw.ir.design import Design, Edge
from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.ops.schedule import Schedule
from onnx_hw.timing.row_solver import Name, NamedPrecedence

BUFFER_DELAY = 1
"""Cycles from a write into a shared buffer until an operation that reads it, and from a release until a write."""


class Precedences:
    """All bounds of a design.

    Attributes:
        edges: of the design.
        engines, sinks, sources: operations of a frame, by track; the last two are called ("sink", tensor) and
            ("source", tensor).
        once: operations before the first frame, of the engines that have any.
        all: the links.
    """

    def __init__(self, design: Design, schedules: Mapping[str, Schedule] | None = None) -> None:
        self.design = design
        self.edges = design.edges()
        self._schedules = schedules or design.schedules()
        self.engines: dict[Name, int] = {
            (node, engine.name): engine.operations
            for node, schedule in self._schedules.items()
            for engine in schedule.engines
        }
        self.once: dict[Name, int] = {
            (node, engine.name): engine.once
            for node, schedule in self._schedules.items()
            for engine in schedule.engines
            if engine.once
        }
        self.sinks: dict[Name, int] = {("sink", e.tensor): e.beats for e in self.edges if e.consumer is None}
        self.sources: dict[Name, int] = {("source", e.tensor): e.beats for e in self.edges if e.producer is None}
        self.all: list[NamedPrecedence] = []
        self._tokens: dict[str, tuple[Edge, int, NamedPrecedence, NamedPrecedence]] = {}
        self._dependencies()
        self._buffers()
        for edge in self.edges:
            self._connect(edge)

    def set_depths(self, depths: Mapping[str, int] | None) -> None:
        """Set the depths of the FIFOs, by tensor; None for the design's own."""
        if depths is None:
            depths = {tensor: size.depth for tensor, size in self.design.fifos.items()}
        for tensor, (edge, latency, tokens, credits) in self._tokens.items():
            tokens.delay, credits.delay = latency + edge.visible_after(depths[tensor]), edge.credit_return
            credits.lag = depths[tensor]

    def credits(self, tensor: str) -> NamedPrecedence:
        """Return the bound by which pushes on an edge wait for room in its FIFO."""
        return self._tokens[tensor][3]

    def _dependencies(self) -> None:
        """Add rule 5."""
        for node, schedule in self._schedules.items():
            for engine in schedule.engines:
                name = (node, engine.name)
                for own in engine.dependencies:
                    self.all.append(NamedPrecedence(name, own.waits, name, own.needs, "a result of its own", own.delay))

    def _buffers(self) -> None:
        """Add rule 4."""
        for node, schedule in self._schedules.items():
            for buffer in schedule.buffers:
                writer, reader = (node, buffer.writer), (node, buffer.reader)
                what = f"{node}.{buffer.writer} to write into {buffer.name}"
                self.all.append(NamedPrecedence(reader, buffer.waits, writer, buffer.needs, what, BUFFER_DELAY))
                beats = AffineSequence.every(self.engines[writer])
                what = f"{node}.{buffer.reader} to free {buffer.name}"
                self.all.append(
                    NamedPrecedence(writer, beats, reader, buffer.releases, what, BUFFER_DELAY, lag=buffer.capacity)
                )

    def _connect(self, edge: Edge) -> None:
        """Add rules 2 and 3 for one edge; only the first one at a source, which holds what it offers."""
        consumer, pops = self._pops(edge)
        if edge.producer is None:
            source = ("source", edge.tensor)
            self.all.append(
                NamedPrecedence(consumer, pops, source, AffineSequence.every(edge.beats), f"input {edge.tensor}")
            )
            return
        node, port = edge.producer
        engine = next(engine for engine in self._schedules[node].engines if port in engine.pushes)
        producer, pushes = (node, engine.name), engine.pushes[port]
        if len(pushes) != len(pops):
            raise ValueError(f"edge {edge.tensor}: {len(pushes)} tokens are pushed and {len(pops)} popped")
        tokens = NamedPrecedence(consumer, pops, producer, pushes, f"a token on {edge.tensor}")
        credits = NamedPrecedence(producer, pushes, consumer, pops, f"room on {edge.tensor}")
        self.all += [tokens, credits]
        self._tokens[edge.tensor] = edge, engine.latency, tokens, credits

    def _pops(self, edge: Edge) -> tuple[Name, AffineSequence]:
        """Return the engine that takes an edge's tokens, or the sink, and its operations that do."""
        if edge.consumer is None:
            return ("sink", edge.tensor), AffineSequence.every(edge.beats)
        node, port = edge.consumer
        engine = next(engine for engine in self._schedules[node].engines if port in engine.pops)
        return (node, engine.name), engine.pops[port]
