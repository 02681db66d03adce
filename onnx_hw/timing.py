"""The firing law as arithmetic: when every operation of every engine fires.

An engine fires operation k in the least cycle t with

1. t ≥ fire(k - 1) + 1;
2. every popped token j visible: fire_producer(push of j) + L + V ≤ t (or t ≥ the offer, at a source);
3. every pushed token j ≥ depth has a place: fire_consumer(pop of j - depth) + CREDIT_RETURN ≤ t;
4. shared buffer: the reader's beat is written: fire_writer(b) + BUFFER_DELAY ≤ t; the writer's beat j ≥ capacity finds
   room: fire_reader(release of j - capacity) + BUFFER_DELAY ≤ t.

A sink pops token j in the least t ≥ max(visible(j), pop(j - 1) + 1) in which it is ready. All conditions are lower
bounds on sums, so there is a least solution; computing each event once its causes are known finds it without
iteration, and events that never become known *are* the deadlock. See ``docs/streams.md``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from onnx_hw import native_law
from onnx_hw.design import Design, Edge
from onnx_hw.ops.schedule import Schedule

DEEPEST_IN_LUTRAM = 33
"""FIFOs of more tokens live in block RAM."""

CREDIT_RETURN = 1
"""Cycles from a pop until its place may be reserved again."""

BUFFER_DELAY = 1
"""Cycles from a write into a shared buffer until an operation that reads it, and from a release until a write."""


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
        times: (count,) int64, of which ``done`` are found.
    """

    name: tuple[str, str]
    count: int
    waits: list[tuple[Track, np.ndarray, int, str]] = field(default_factory=list)
    ready: np.ndarray | None = None
    times: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    done: int = 0

    def __post_init__(self) -> None:
        if not self.done:
            self.times = np.zeros(self.count, dtype=np.int64)

    @property
    def known(self) -> np.ndarray:
        """The cycles found so far."""
        return self.times[: self.done]


@dataclass(frozen=True)
class Wait:
    """An engine, or a sink, that will never fire again.

    Attributes:
        name: (node, engine) or ("sink", tensor).
        operation: the one that never fires.
        waits_for: what it lacks, in words.
        whom: who would have to act first: (node, engine), or ("source", tensor) for one that has ended.
    """

    name: tuple[str, str]
    operation: int
    waits_for: str
    whom: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        who = f"the sink of {self.name[1]}" if self.name[0] == "sink" else ".".join(self.name)
        return f"{who} waits in operation {self.operation} for {self.waits_for}"


@dataclass(frozen=True)
class Prediction:
    """Cycle of every event.

    Attributes:
        fires: (node, engine) -> cycles of its operations, frames end to end.
        sinks: output tensor -> cycle in which each token leaves.
        beats: output tensor -> tokens per frame.
        waits: who never fires again though there are operations left, and why.
    """

    fires: Mapping[tuple[str, str], np.ndarray]
    sinks: Mapping[str, np.ndarray]
    beats: Mapping[str, int]
    waits: tuple[Wait, ...] = ()

    def interval(self, frames: int) -> int:
        """Cycles between the last tokens of frames ``frames - 1`` and ``frames``, the slowest output counting."""
        return self.elapsed(frames - 1, frames)

    def elapsed(self, first: int, last: int) -> int:
        """Cycles between the last tokens of two frames (counted from 1), the slowest output counting."""
        return max(
            int(times[last * self.beats[name] - 1] - times[first * self.beats[name] - 1])
            for name, times in self.sinks.items()
        )

    def cycles_per_frame(self, frames: int) -> float:
        """The average over the second half of ``frames`` frames: the interval at steady state.

        Gaps between single frames may alternate, since a bubble need not come in each of them.
        """
        half = frames // 2
        return max(
            float(times[frames * self.beats[name] - 1] - times[half * self.beats[name] - 1]) / (frames - half)
            for name, times in self.sinks.items()
        )

    def latency(self) -> int:
        """Cycles from 0 until the last token of the first frame has left, the slowest output counting."""
        return max(int(times[self.beats[name] - 1]) + 1 for name, times in self.sinks.items())

    def circle(self) -> tuple[Wait, ...]:
        """Waits that hold each other up, each waiting for the next and the last for the first; empty if there are none.

        A deadlock has such a circle; waiting for a source that has ended is no deadlock.
        """
        waiting = {wait.name: wait for wait in self.waits}
        done: set[tuple[str, str]] = set()
        path: list[tuple[str, str]] = []

        def closes(name: tuple[str, str]) -> tuple[Wait, ...]:
            if name in path:
                return tuple(waiting[member] for member in path[path.index(name) :])
            if name in done or name not in waiting:
                return ()
            path.append(name)
            for other in waiting[name].whom:
                if found := closes(other):
                    return found
            done.add(path.pop())
            return ()

        return next((found for wait in self.waits if (found := closes(wait.name))), ())


def _spread(per_frame: np.ndarray, step: int, frames: int) -> np.ndarray:
    """Indices of one frame repeated for several, each frame ``step`` further."""
    return (np.arange(frames)[:, None] * step + np.asarray(per_frame)[None, :]).reshape(-1)


def _waits(count: int, at: np.ndarray, event: np.ndarray) -> np.ndarray:
    """(count,) int32: per event of a track, the event it waits for, or -1."""
    index = np.full(count, -1, dtype=np.int32)
    index[at] = event
    return index


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
        engines = self._engines(frames)
        sinks = {e.tensor: _sink(e, frames, ready.get(e.tensor)) for e in self.edges if e.consumer is None}
        self._buffers(engines, frames)
        sources: list[Track] = []
        for edge in self.edges:
            if edge.consumer is None:
                consumer, pops = sinks[edge.tensor], np.arange(edge.beats * frames)
            else:
                consumer, pops = self._pops(edge.consumer, engines, frames)
            if edge.producer is None:
                times = np.ascontiguousarray(offers[edge.tensor], dtype=np.int64)
                source = Track(("source", edge.tensor), len(times), times=times, done=len(times))
                sources.append(source)
                # it may end early: the missing tokens are events that never become known
                index = _waits(consumer.count, pops, np.arange(len(pops)))
                consumer.waits.append((source, index, 0, f"input {edge.tensor}"))
            else:
                self._connect(edge, edge.producer, engines, consumer, pops, depths[edge.tensor])
        waits = _run([*engines.values(), *sinks.values(), *sources])
        return Prediction(
            {name: track.known for name, track in engines.items()},
            {tensor: track.known for tensor, track in sinks.items()},
            {edge.tensor: edge.beats for edge in self.edges if edge.consumer is None},
            waits,
        )

    def _engines(self, frames: int) -> dict[tuple[str, str], Track]:
        return {
            (node, engine.name): Track((node, engine.name), engine.operations * frames)
            for node, schedule in self.schedules.items()
            for engine in schedule.engines
        }

    def _buffers(self, engines: Mapping[tuple[str, str], Track], frames: int) -> None:
        """Rule 4."""
        for node, schedule in self.schedules.items():
            buffer = schedule.buffer
            if buffer is None:
                continue
            writer, reader = engines[node, buffer.writer], engines[node, buffer.reader]
            beats, operations = writer.count // frames, reader.count // frames
            at = np.flatnonzero(buffer.needs >= 0)
            needs = _spread(buffer.needs[at], beats, frames)
            index = _waits(reader.count, _spread(at, operations, frames), needs)
            reader.waits.append((writer, index, BUFFER_DELAY, f"{node}.{buffer.writer} to write into the buffer"))
            # beats given back after each reader operation, all frames; beat j waits for the release of j - capacity
            given_back = _spread(buffer.released, beats, frames)
            late = np.arange(buffer.capacity, writer.count)
            release = np.searchsorted(given_back, late - buffer.capacity, side="right")
            index = _waits(writer.count, late, release)
            writer.waits.append((reader, index, BUFFER_DELAY, f"{node}.{buffer.reader} to free the buffer"))

    def _pops(
        self, end: tuple[str, str], engines: Mapping[tuple[str, str], Track], frames: int
    ) -> tuple[Track, np.ndarray]:
        """The engine that pops at an input port, and the operations that do."""
        node, port = end
        engine = next(engine for engine in self.schedules[node].engines if port in engine.pops)
        return engines[node, engine.name], _spread(engine.pops[port], engine.operations, frames)

    def _connect(
        self,
        edge: Edge,
        start: tuple[str, str],
        engines: Mapping[tuple[str, str], Track],
        consumer: Track,
        pops: np.ndarray,
        depth: int,
    ) -> None:
        """Rules 2 and 3 for one edge that has a producer."""
        node, port = start
        engine = next(engine for engine in self.schedules[node].engines if port in engine.pushes)
        producer = engines[node, engine.name]
        pushes = _spread(engine.pushes[port], engine.operations, producer.count // engine.operations)
        if len(pushes) != len(pops):
            raise ValueError(f"edge {edge.tensor}: {len(pushes)} tokens are pushed and {len(pops)} popped")
        index = _waits(consumer.count, pops, pushes)
        consumer.waits.append((producer, index, engine.latency + visible_after(depth), f"a token on {edge.tensor}"))
        index = _waits(producer.count, pushes[depth:], pops[: max(0, len(pops) - depth)])
        producer.waits.append((consumer, index, CREDIT_RETURN, f"room on {edge.tensor}"))


def _sink(edge: Edge, frames: int, ready: np.ndarray | None) -> Track:
    trace = None if ready is None else np.asarray(ready, dtype=bool)
    return Track(("sink", edge.tensor), edge.beats * frames, ready=trace)


def _run(tracks: list[Track]) -> tuple[Wait, ...]:
    """Advance every track until none can."""
    if not native_law.solve(tracks):
        advance_all(tracks)
    return tuple(_explain(track) for track in tracks if track.done < track.count)


def advance_all(tracks: Sequence[Track]) -> None:
    """The definition of the least solution: compute every event whose causes are known, until there is none."""
    found = {id(track): track.known.tolist() for track in tracks}
    asleep: dict[int, list[Track]] = {}
    queue = deque(tracks)
    while queue:
        track = queue.popleft()
        before = len(found[id(track)])
        blocker = _advance(track, found)
        if blocker is not None:
            asleep.setdefault(id(blocker), []).append(track)
        if len(found[id(track)]) > before:
            queue.extend(asleep.pop(id(track), ()))
    for track in tracks:
        track.done = len(found[id(track)])
        track.times[: track.done] = found[id(track)]


def _advance(track: Track, found: Mapping[int, list[int]]) -> Track | None:
    """Find as many events of one track as possible; the track that is waited for, or None when all are known."""
    times = found[id(track)]
    waits = [(found[id(other)], index, delay) for other, index, delay, _ in track.waits]
    previous = times[-1] if times else -1
    for k in range(len(times), track.count):
        t = previous + 1
        for position, (known, index, delay) in enumerate(waits):
            j = index[k]
            if j >= 0:
                if j >= len(known):
                    return track.waits[position][0]
                t = max(t, known[j] + delay)
        if track.ready is not None:
            while t < len(track.ready) and not track.ready[t]:
                t += 1
        times.append(t)
        previous = t
    return None


def _explain(track: Track) -> Wait:
    k = track.done
    reasons = [(what, other.name) for other, index, _, what in track.waits if index[k] >= other.done]
    return Wait(track.name, k, " and ".join(what for what, _ in reasons), tuple(name for _, name in reasons))


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
