"""The firing law as arithmetic: when every operation of every engine fires.

An engine fires operation k in the least cycle t with

1. t ≥ fire(k - 1) + 1;
2. every popped token j visible: fire_producer(push of j) + L + V ≤ t (or t ≥ the offer, at a source);
3. every pushed token j ≥ depth has a place: fire_consumer(pop of j - depth) + C ≤ t, C being the edge's credit return
   (1 between neighbours) as V is its delay;
4. of each shared buffer the reader's beat is written: fire_writer(b) + BUFFER_DELAY ≤ t; the writer's beat
   j ≥ capacity finds room: fire_reader(release of j - capacity) + BUFFER_DELAY ≤ t.
5. every result of its own that it needs has come: fire(k') + D ≤ t.

What an engine does once, before its first frame, waits for nothing: fire(k) = k. A sink pops token j in the least
t ≥ max(visible(j), pop(j - 1) + 1) in which it is ready. All conditions are lower bounds on sums, so there is a least
solution; computing each event once its causes are known finds it without iteration, and events that never become known
*are* the deadlock. See ``docs/streams.md``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.ops.outbox import DEEPEST_IN_LUTRAM as DEEPEST_IN_LUTRAM
from onnx_hw.ops.schedule import Schedule
from onnx_hw.timing import native_solver
from onnx_hw.timing.constraints import Precedences
from onnx_hw.timing.solver import Precedence, Times, Track, solutions
from onnx_hw.timing.steady_state import sustains


@dataclass(frozen=True)
class BlockedEngine:
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
        fires: (node, engine) -> cycles of its operations: those that happen once, then frames end to end.
        sinks: output tensor -> cycle in which each token leaves.
        beats: output tensor -> tokens per frame.
        waits: who never fires again though there are operations left, and why.
    """

    fires: Mapping[tuple[str, str], np.ndarray]
    sinks: Mapping[str, np.ndarray]
    beats: Mapping[str, int]
    waits: tuple[BlockedEngine, ...] = ()

    def interval(self, frames: int) -> int:
        """Return the cycles between the last tokens of the last two of ``frames`` frames, at the slowest output."""
        return self.elapsed(frames - 1, frames)

    def elapsed(self, first: int, last: int) -> int:
        """Return the cycles between the last tokens of two frames (counted from 1), the slowest output counting."""
        return max(
            int(times[last * self.beats[name] - 1] - times[first * self.beats[name] - 1])
            for name, times in self.sinks.items()
        )

    def cycles_per_frame(self, frames: int) -> float:
        """Return the average over the second half of ``frames`` frames: the interval at steady state.

        Gaps between single frames may alternate, since a bubble need not come in each of them.
        """
        half = frames // 2
        return max(
            float(times[frames * self.beats[name] - 1] - times[half * self.beats[name] - 1]) / (frames - half)
            for name, times in self.sinks.items()
        )

    def latency(self) -> int:
        """Return the cycles from 0 until the last token of the first frame has left, the slowest output counting."""
        return max(int(times[self.beats[name] - 1]) + 1 for name, times in self.sinks.items())

    def circle(self) -> tuple[BlockedEngine, ...]:
        """Return the waits that hold each other up; see ``circle_of``."""
        return circle_of(self.waits)


def circle_of(waits: Sequence[BlockedEngine]) -> tuple[BlockedEngine, ...]:
    """Return the waits that hold each other up, each waiting for the next and the last for the first; empty without
    such a circle.

    A deadlock has such a circle; waiting for a source that has ended is no deadlock.
    """
    waiting = {wait.name: wait for wait in waits}
    done: set[tuple[str, str]] = set()
    path: list[tuple[str, str]] = []

    def closes(name: tuple[str, str]) -> tuple[BlockedEngine, ...]:
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

    return next((found for wait in waits if (found := closes(wait.name))), ())


class Fires(Mapping[tuple[str, str], np.ndarray]):
    """(node, engine) -> cycles of its operations, frames end to end; computed when they are asked for."""

    def __init__(self, times: Mapping[tuple[str, str], Times]) -> None:
        self._times = times

    def __getitem__(self, name: tuple[str, str]) -> np.ndarray:
        return self._times[name].every

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._times)

    def __len__(self) -> int:
        return len(self._times)


class Events:
    """Tracks of a design, to be solved for several depths and stalls; ``links`` add waits to those of the design."""

    def __init__(
        self, design: Design, schedules: Mapping[str, Schedule] | None = None, links: Precedences | None = None
    ) -> None:
        self._links = links = links or Precedences(design, schedules)
        self.edges = links.edges
        named = {
            name: Track(name, operations, links.once.get(name, 0))
            for name, operations in (*links.engines.items(), *links.sinks.items(), *links.sources.items())
        }
        self._engines = {name: named[name] for name in links.engines}
        self._sinks = {tensor: named["sink", tensor] for _, tensor in links.sinks}
        self._sources = {tensor: named["source", tensor] for _, tensor in links.sources}
        self._bounds = []
        for link in links.all:
            bound = Precedence(np.asarray(link.at), named[link.there], np.asarray(link.after), link.what)
            named[link.here].bounds.append(bound)
            self._bounds.append((link, bound))
        self._tracks = list(named.values())
        solver = native_solver.Solver(self._tracks).solutions if native_solver.available() else None
        self._solve = solver or partial(solutions, self._tracks)

    @property
    def tracks(self) -> tuple[Track, ...]:
        """Those of all engines, sinks and sources."""
        return tuple(self._tracks)

    def solve(
        self,
        frames: int,
        *,
        offers: Mapping[str, np.ndarray],
        ready: Mapping[str, np.ndarray] | None = None,
        depths: Mapping[str, int] | None = None,
    ) -> Prediction:
        """Return the least solution.

        Args:
            frames: operations of this many frames are predicted. Engines run on into a frame that never comes as far
                as they can, so that F frames of tokens want ``frames = F + 1``.
            offers: per input tensor, the cycle from which each token is offered; one number a token.
            ready: per output tensor, the sink's trace of readiness, (cycles,) or (rounds, cycles); missing or past its
                end means ready.
            depths: per edge, instead of the design's own FIFO depths.
        """
        (times,) = deque(self.solutions(frames, offers=offers, ready=ready, depths=depths), maxlen=1)
        return Prediction(
            Fires({name: times[track] for name, track in self._engines.items()}),
            {tensor: times[track].every for tensor, track in self._sinks.items()},
            {tensor: track.operations for tensor, track in self._sinks.items()},
            tuple(
                _explain(track, times)
                for track in (*self._engines.values(), *self._sinks.values())
                if times[track].fired < frames * track.operations
            ),
        )

    def sustains(
        self,
        interval: int,
        settled: int,
        frames: int,
        *,
        offers: Mapping[str, np.ndarray],
        depths: Mapping[str, int] | None = None,
    ) -> bool:
        """Return whether frames leave every ``interval`` cycles in the long run; see ``steady_state.sustains``.

        Args:
            offers: those of ``frames`` frames.
        """
        solved = self.solutions(frames, offers=offers, depths=depths)
        return sustains(solved, self._sinks.values(), interval, settled, frames)

    def solutions(
        self,
        frames: int,
        *,
        offers: Mapping[str, np.ndarray],
        ready: Mapping[str, np.ndarray] | None = None,
        depths: Mapping[str, int] | None = None,
    ) -> Iterator[dict[Track, Times]]:
        """Yield the solutions for one frame of operations, for two, ... and for ``frames``; arguments as for ``solve``.

        To be read to its end, or left, before the next one begins: they share their tracks.
        """
        self._links.set_depths(depths)
        for link, bound in self._bounds:
            bound.delay, bound.lag = link.delay, link.lag
        known = {track: np.asarray(offers[tensor], dtype=np.int64) for tensor, track in self._sources.items()}
        traces = {
            self._sinks[tensor]: np.asarray(trace, dtype=bool).reshape(-1) for tensor, trace in (ready or {}).items()
        }
        return self._solve(frames, known, traces)


def _explain(track: Track, times: Mapping[Track, Times]) -> BlockedEngine:
    """Explain why a track never fires again."""
    operation = times[track].fired
    reasons = [
        (bound.what, bound.other.name) for bound, cause in track.causes(operation) if cause >= times[bound.other].fired
    ]
    return BlockedEngine(
        track.name, operation, " and ".join(what for what, _ in reasons), tuple(name for _, name in reasons)
    )


def predict(
    design: Design,
    frames: int,
    *,
    offers: Mapping[str, np.ndarray],
    ready: Mapping[str, np.ndarray] | None = None,
    depths: Mapping[str, int] | None = None,
) -> Prediction:
    """Predict when everything happens; see ``Events.solve``."""
    return Events(design).solve(frames, offers=offers, ready=ready, depths=depths)
