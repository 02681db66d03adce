"""The least solution of the firing law, by its definition: in Python, without cleverness.

A *track* is an engine, a source or a sink with its operations, frame after frame. A *bound* says that operations of a
track are not before operations of another one, or before earlier ones of its own. All bounds are lower ones, so there
is a least solution; computing each operation once its causes are known finds it without iteration, and what never
becomes known *is* the deadlock. ``solver.c`` is the same compiled, see ``native_law.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(eq=False, repr=False)
class Precedence:
    """Operations of a track that wait for operations of another one.

    Counted through all frames, the n-th operation of ``at`` fires no earlier than ``delay`` cycles after the
    (n - ``lag``)-th of ``after``; where n < ``lag`` it waits for nothing.

    Attributes:
        at: (tokens,) numbers of operations in a frame of the track, ascending.
        other: the track that is waited for.
        after: (tokens,) numbers of operations in a frame of the other track.
        what: is waited for, in words.
    """

    at: np.ndarray
    other: Track
    after: np.ndarray
    what: str
    delay: int = 0
    lag: int = 0

    def __repr__(self) -> str:
        return f"{len(self.at)} tokens of {self.what}, delay {self.delay}, lag {self.lag}"


@dataclass(eq=False, repr=False)
class Track:
    """The operations of one engine, source or sink.

    Attributes:
        name: (node, engine), ("source", tensor) or ("sink", tensor).
        operations: how many there are in a frame.
        once: how many there are before the first frame: they wait for nothing and are not counted among the others.
    """

    name: tuple[str, str]
    operations: int
    once: int = 0
    bounds: list[Precedence] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.name[0]}.{self.name[1]}: {self.operations} operations, {len(self.bounds)} bounds"

    def causes(self, operation: int) -> Iterator[tuple[Precedence, int]]:
        """Return what an operation (counted through all frames) waits for: operations of other tracks, so counted."""
        frame, index = divmod(operation, self.operations)
        for bound in self.bounds:
            nth, tokens = int(np.searchsorted(bound.at, index)), len(bound.at)
            if nth < tokens and bound.at[nth] == index and frame * tokens + nth >= bound.lag:
                before, there = divmod(frame * tokens + nth - bound.lag, tokens)
                yield bound, before * bound.other.operations + int(bound.after[there])


@dataclass(frozen=True)
class Times:
    """When the operations of a track fire, as far as they do.

    Attributes:
        stops: numbers of some operations in a frame, ascending; all others fire in the cycle after the one before.
        cycles: of the stops, counted through all frames.
        fired: how many operations of the track there are.
    """

    track: Track
    stops: np.ndarray
    cycles: np.ndarray
    fired: int

    @property
    def every(self) -> np.ndarray:
        """(once + fired,) int64: the cycle of every operation, those before the first frame included."""
        operations, once, stops = self.track.operations, self.track.once, self.stops
        if len(stops) == operations:
            return np.concatenate([np.arange(once), self.cycles]) if once else self.cycles
        frames = np.arange(-(-len(self.cycles) // max(1, len(stops))))
        numbers = (frames[:, None] * operations + stops[None, :]).reshape(-1)[: len(self.cycles)]
        lead = np.concatenate([[once], self.cycles - numbers])  # before its first stop a track is never late
        every = np.repeat(lead, np.diff(numbers, prepend=0, append=self.fired)) + np.arange(self.fired)
        return np.concatenate([np.arange(once), every]) if once else every


def stops_of(tracks: Sequence[Track]) -> dict[Track, np.ndarray]:
    """Return the operations in a frame that wait for another track or are waited for, by number, ascending."""
    stops = {track: np.zeros(track.operations, dtype=bool) for track in tracks}
    for track in tracks:
        for bound in track.bounds:
            stops[track][bound.at] = True
            stops[bound.other][bound.after] = True
    return {track: np.flatnonzero(marked) for track, marked in stops.items()}


def solutions(
    tracks: Sequence[Track], frames: int, known: Mapping[Track, np.ndarray], ready: Mapping[Track, np.ndarray]
) -> Iterator[dict[Track, Times]]:
    """Yield the least solutions for one frame of operations, for two, ... and for ``frames``: every operation that
    fires.

    What fires in a frame depends on no later one, so each solution begins with the one before.

    Args:
        tracks: every one that a bound names among them.
        known: cycles of the sources' operations in all frames; they may end early.
        ready: per sink, the cycles in which it is ready; after the end, and where there is no trace, it always is.
    """
    found = {track: known[track].tolist() if track in known else [] for track in tracks}
    for solved in range(1, frames + 1):
        advance_all([track for track in tracks if track not in known], solved, found, ready)
        yield {
            track: Times(track, np.arange(track.operations), np.array(cycles, dtype=np.int64), len(cycles))
            for track, cycles in found.items()
        }


def advance_all(
    tracks: Sequence[Track], frames: int, found: Mapping[Track, list[int]], ready: Mapping[Track, np.ndarray]
) -> None:
    """Add to each track every operation of ``frames`` frames whose causes are known or become known."""
    asleep: dict[Track, list[Track]] = {}
    queue = deque(tracks)
    while queue:
        track = queue.popleft()
        before = len(found[track])
        blocker = _advance(track, frames, found, ready.get(track, np.ones(0)))
        if blocker is not None:
            asleep.setdefault(blocker, []).append(track)
        if len(found[track]) > before:
            queue.extend(asleep.pop(track, ()))


def _advance(track: Track, frames: int, found: Mapping[Track, list[int]], ready: np.ndarray) -> Track | None:
    """Find all operations of one track that can be found; return the track it waits for, None if all are known."""
    cycles = found[track]
    for operation in range(len(cycles), frames * track.operations):
        t = cycles[-1] + 1 if cycles else track.once
        for bound, cause in track.causes(operation):
            if cause >= len(found[bound.other]):
                return bound.other
            t = max(t, found[bound.other][cause] + bound.delay)
        while t < len(ready) and not ready[t]:
            t += 1
        cycles.append(t)
    return None
