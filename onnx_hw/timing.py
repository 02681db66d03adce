"""The firing law as arithmetic: when every operation of every engine fires.

An engine fires operation k in the least cycle t with

1. t ≥ fire(k - 1) + 1;
2. every popped token j visible: fire_producer(push of j) + L + V ≤ t (or t ≥ the offer, at a source);
3. every pushed token j ≥ depth has a place: fire_consumer(pop of j - depth) + 1 ≤ t;
4. shared buffer: the reader's beat is written: fire_writer(b) + 1 ≤ t; the writer's beat j ≥ capacity finds room:
   fire_reader(release of j - capacity) + 1 ≤ t.

A sink pops token j in the least t ≥ max(visible(j), pop(j - 1) + 1) in which it is ready. All conditions are lower
bounds on sums, so there is a least solution; computing each event once its causes are known finds it without
iteration, and events that never become known *are* the deadlock. See ``docs/streams.md``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from onnx_hw.design import Design
from onnx_hw.ops.schedule import Schedule

DEEPEST_IN_LUTRAM = 33
"""FIFOs of more tokens live in block RAM."""


def visible_after(depth: int) -> int:
    """V: cycles from a token's arrival in the FIFO until its consumer sees it."""
    return 1 if depth <= DEEPEST_IN_LUTRAM else 3


@dataclass
class Track:
    """The events of one engine, source or sink, in order, and what each waits for.

    Attributes:
        name: (node, engine), ("source", tensor) or ("sink", tensor).
        count: how many events there are.
        waits: (other track, index of its event or -1 per event here, cycles to add, what is waited for).
        ready: trace of a sink; after its end it is always ready.
        times: the cycles found so far.
    """

    name: tuple[str, str]
    count: int
    waits: list[tuple[Track, list[int], int, str]] = field(default_factory=list)
    ready: list[bool] | None = None
    times: list[int] = field(default_factory=list)

    def advance(self) -> Track | None:
        """Find as many events as possible; the track that is waited for, or None when all are known."""
        times, count, ready = self.times, self.count, self.ready
        waits = [(other.times, index, delay) for other, index, delay, _ in self.waits]
        k = len(times)
        previous = times[-1] if times else -1
        while k < count:
            t = previous + 1
            for position, (known, index, delay) in enumerate(waits):
                j = index[k]
                if j >= 0:
                    if j >= len(known):
                        return self.waits[position][0]
                    cause = known[j] + delay
                    if cause > t:
                        t = cause
            if ready is not None:
                while t < len(ready) and not ready[t]:
                    t += 1
            times.append(t)
            previous = t
            k += 1
        return None


@dataclass(frozen=True)
class Wait:
    """An engine that will never fire again: operation number, and whom it waits for, in words."""

    name: tuple[str, str]
    operation: int
    waits_for: str


@dataclass(frozen=True)
class Prediction:
    """Cycle of every event.

    Attributes:
        fires: (node, engine) -> cycles of its operations, frames end to end.
        sinks: output tensor -> cycle in which each token leaves.
        waits: empty, or who waits for whom in a deadlock.
    """

    fires: Mapping[tuple[str, str], np.ndarray]
    sinks: Mapping[str, np.ndarray]
    waits: tuple[Wait, ...]

    def interval(self, frames: int) -> int:
        """Cycles between the last tokens of the last two of ``frames`` frames, the slowest output counting."""
        gaps = []
        for times in self.sinks.values():
            tokens = len(times) // frames
            gaps.append(int(times[frames * tokens - 1] - times[(frames - 1) * tokens - 1]))
        return max(gaps)

    def latency(self, frames: int) -> int:
        """Cycles from 0 until the last token of the first frame has left, the slowest output counting."""
        return max(int(times[len(times) // frames - 1]) + 1 for times in self.sinks.values())


def _spread(per_frame: np.ndarray, step: int, frames: int) -> np.ndarray:
    """Indices of one frame repeated for several, each frame ``step`` further."""
    return (np.arange(frames)[:, None] * step + np.asarray(per_frame)[None, :]).reshape(-1)


def _waits(count: int, at: np.ndarray, event: np.ndarray) -> list[int]:
    """Per event of a track, the event it waits for, or -1."""
    index = np.full(count, -1, dtype=np.int64)
    index[at] = event
    return index.tolist()  # type: ignore[no-any-return]


class Events:
    """The tracks of a design for some frames; schedules are computed once and may be solved with several depths."""

    def __init__(self, design: Design, schedules: Mapping[str, Schedule] | None = None) -> None:
        self.design = design
        self.edges = design.edges()
        self.schedules = schedules or {
            node.name: node.operator.schedule(design.folding(node)) for node in design.network.nodes
        }

    def solve(
        self,
        frames: int,
        *,
        offers: Mapping[str, np.ndarray],
        ready: Mapping[str, np.ndarray] | None = None,
        depths: Mapping[str, int] | None = None,
    ) -> Prediction:
        """The least solution.

        Args:
            frames: operations of this many frames are predicted. Engines run on into a frame that never comes as far
                as they can, so that F frames of tokens want ``frames = F + 1``.
            offers: per input tensor, the cycle from which each token is offered; as many tokens as there are offers.
            ready: per output tensor, the sink's trace of readiness; missing or past its end means ready.
            depths: per edge, instead of the design's own FIFO depths.
        """
        ready = ready or {}
        if depths is None:
            depths = {tensor: size.depth for tensor, size in self.design.fifos.items()}
        tracks = self._engines(frames)
        self._buffers(tracks, frames)
        sinks: dict[str, Track] = {}
        fixed: list[Track] = []
        for edge in self.edges:
            if edge.producer is None:
                source = Track(("source", edge.tensor), len(offers[edge.tensor]))
                source.times = np.asarray(offers[edge.tensor]).tolist()
                fixed.append(source)
            if edge.consumer is None:
                trace = ready.get(edge.tensor)
                sink = Track(("sink", edge.tensor), edge.beats * frames)
                sink.ready = None if trace is None else np.asarray(trace, dtype=bool).tolist()
                sinks[edge.tensor] = sink
            self._connect(edge, tracks, fixed[-1] if edge.producer is None else None, sinks.get(edge.tensor), frames, depths)
        waits = _run([*tracks.values(), *sinks.values()])
        return Prediction(
            {name: np.array(track.times, dtype=np.int64) for name, track in tracks.items()},
            {tensor: np.array(track.times, dtype=np.int64) for tensor, track in sinks.items()},
            waits,
        )

    def _engines(self, frames: int) -> dict[tuple[str, str], Track]:
        return {
            (node, engine.name): Track((node, engine.name), engine.operations * frames)
            for node, schedule in self.schedules.items()
            for engine in schedule.engines
        }

    def _buffers(self, tracks: dict[tuple[str, str], Track], frames: int) -> None:
        """Rule 4."""
        for node, schedule in self.schedules.items():
            buffer = schedule.buffer
            if buffer is None:
                continue
            writer, reader = tracks[node, buffer.writer], tracks[node, buffer.reader]
            beats, operations = writer.count // frames, reader.count // frames
            at = np.flatnonzero(buffer.needs >= 0)
            needs = _spread(buffer.needs[at], beats, frames)
            index = _waits(reader.count, _spread(at, operations, frames), needs)
            reader.waits.append((writer, index, 1, f"{node}.{buffer.writer} to write into the buffer"))
            # beats given back after each reader operation, all frames; beat j waits for the release of j - capacity
            given_back = _spread(buffer.released, beats, frames)
            late = np.arange(buffer.capacity, writer.count)
            release = np.searchsorted(given_back, late - buffer.capacity, side="right")
            index = _waits(writer.count, late, release)
            writer.waits.append((reader, index, 1, f"{node}.{buffer.reader} to free the buffer"))

    def _connect(
        self,
        edge: object,
        tracks: dict[tuple[str, str], Track],
        source: Track | None,
        sink: Track | None,
        frames: int,
        depths: Mapping[str, int],
    ) -> None:
        """Rules 2 and 3 for one edge."""
        from onnx_hw.design import Edge

        assert isinstance(edge, Edge)
        if edge.consumer is None:
            assert sink is not None
            consumer, pops = sink, np.arange(sink.count)
        else:
            node, port = edge.consumer
            engine = next(e for e in self.schedules[node].engines if port in e.pops)
            consumer, pops = tracks[node, engine.name], _spread(engine.pops[port], engine.operations, frames)
        if source is not None:
            # a source may end early: the missing tokens are events that never become known
            index = _waits(consumer.count, pops, np.arange(len(pops)))
            consumer.waits.append((source, index, 0, f"input {edge.tensor}"))
            return
        assert edge.producer is not None
        node, port = edge.producer
        engine = next(e for e in self.schedules[node].engines if port in e.pushes)
        producer, pushes = tracks[node, engine.name], _spread(engine.pushes[port], engine.operations, frames)
        if len(pushes) != len(pops):
            raise ValueError(f"edge {edge.tensor}: {len(pushes)} tokens are pushed and {len(pops)} popped")
        depth = depths[edge.tensor]
        index = _waits(consumer.count, pops, pushes)
        consumer.waits.append((producer, index, engine.latency + visible_after(depth), f"a token on {edge.tensor}"))
        index = _waits(producer.count, pushes[depth:], pops[: max(0, len(pops) - depth)])
        producer.waits.append((consumer, index, 1, f"room on {edge.tensor}"))


def _run(tracks: list[Track]) -> tuple[Wait, ...]:
    """Advance every track until none can."""
    asleep: dict[int, list[Track]] = {}
    queue = deque(tracks)
    while queue:
        track = queue.popleft()
        before = len(track.times)
        blocker = track.advance()
        if blocker is not None:
            asleep.setdefault(id(blocker), []).append(track)
        if len(track.times) > before:
            queue.extend(asleep.pop(id(track), ()))
    return tuple(_explain(track) for track in tracks if len(track.times) < track.count)


def _explain(track: Track) -> Wait:
    k = len(track.times)
    reasons = [what for other, index, _, what in track.waits if index[k] >= len(other.times)]
    return Wait(track.name, k, " and ".join(reasons))


def predict(
    design: Design,
    frames: int,
    *,
    offers: Mapping[str, np.ndarray],
    ready: Mapping[str, np.ndarray] | None = None,
    depths: Mapping[str, int] | None = None,
) -> Prediction:
    """When everything happens; see ``Events.solve``."""
    return Events(design).solve(frames, offers=offers, ready=ready, depths=depths)
