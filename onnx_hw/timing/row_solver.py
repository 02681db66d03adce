"""The firing law where a frame has too many operations to write down: only the ends of frames are kept.

``row_solver.c`` computes every event once its causes are known, as ``solver.c`` does. The sources give their tokens
round by round (a round is a row, or some), and all tracks go as far as they can. When a round, or some, did the same as
those before, it lets them happen again and again without looking at each event. That is exact. Let every track have
advanced by P operations, in T cycles of its own, its loops be where they were in a turn, and the tokens that it has yet
to take come D cycles after those taken before. Each event is the latest of its causes; if one that made it wait, or the
event before, comes T later, and no other one comes later than that (D > T is good for the repetitions that the slack
allows), then the next event in its place comes T later, too: by induction, like everything that follows from it. The
same is looked at from frame to frame: what repeats itself there does so for ever.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd
from pathlib import Path

import numpy as np

from onnx_hw.ops.affine_ranges import AffineSequence
from onnx_hw.timing.native_code import compiled

SOURCE = Path(__file__).with_name("row_solver.c")
HEADERS = tuple(SOURCE.with_name(name) for name in ("solver_events.h", "solver_repetition.h"))

ALWAYS = (1 << 63) - 1
"""Frames: for ever."""

Name = tuple[str, str]


@dataclass(eq=False)
class NamedPrecedence:
    """A bound (see ``law.Bound``) between tracks that are named.

    Attributes:
        here: the track that waits, in its operations ``at``.
        there: the track that is waited for, in its operations ``after``.
        what: is waited for, in words.
    """

    here: Name
    at: AffineSequence
    there: Name
    after: AffineSequence
    what: str
    delay: int = 0
    lag: int = 0

    def __repr__(self) -> str:
        return f"{self.here} waits for {len(self.at)} tokens of {self.what}"


@dataclass(frozen=True)
class FrameEnd:
    """A frame that is done.

    Attributes:
        cycles: by sink, that of its last token.
        again: number of further frames that are sure to follow each other at the same distance as this one the last.
    """

    cycles: Mapping[Name, int]
    again: int


class _Turns(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("first", "count", "step", "length")),
        ("pattern", ctypes.c_void_p),
    ]


class _List(ctypes.Structure):
    _fields_ = [
        ("turns", ctypes.POINTER(_Turns)),
        ("kinds", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in ("kind", "turn", "place", "base", "next")),
        ("now", _Turns),
    ]


class _Bound(ctypes.Structure):
    _fields_ = [
        ("at", _List),
        ("after", _List),
        *((name, ctypes.c_int64) for name in ("here", "there", "delay", "lag")),
        ("cycles", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("room", "taken", "put", "kept", "unbound", "slack", "binds")),
        *((name, ctypes.c_int64) for name in ("frame_slack", "frame_binds", "asleep")),
        ("before", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("before_count", "before_unbound")),
    ]


class _Track(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("operations", "once", "sources", "pace")),
        ("waits", ctypes.c_void_p),
        ("serves", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("waits_count", "serves_count", "operation", "previous", "before")),
    ]


class Law(ctypes.Structure):
    """State of a solution, as in ``solver_events.h``."""

    _fields_ = [
        ("tracks", ctypes.POINTER(_Track)),
        ("bounds", ctypes.POINTER(_Bound)),
        *((name, ctypes.c_int64) for name in ("tracks_count", "bounds_count", "rounds", "interval", "frame", "fed")),
        ("awake", ctypes.c_void_p),
        ("awake_count", ctypes.c_int64),
        ("memory", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("remembered", "anchored", "anchor_lasts", "failed")),
    ]


def available() -> bool:
    """Return whether there is a compiler."""
    return _library() is not None


def _library() -> ctypes.CDLL | None:
    library = compiled(SOURCE, *HEADERS)
    if library is not None:
        library.law_memory.argtypes = library.law_frame.argtypes = library.law_end.argtypes = [ctypes.c_void_p]
        library.law_begin.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        library.law_memory.restype = library.law_frame.restype = ctypes.c_int64
        library.law_begin.restype = library.law_end.restype = None
    return library


class FrameSolver:
    """Tracks, made ready for many solutions with other delays and lags of their links.

    Args:
        operations: of a frame, by track, sources among them.
        links: their delays and lags are looked at when a solution begins.
        sinks: the tracks whose ends are wanted.
        sources: those of the tracks that wait for no other track; each serves one link with every operation.
        once: operations before the first frame, of the tracks that have any.
    """

    def __init__(
        self,
        operations: Mapping[Name, int],
        links: Sequence[NamedPrecedence],
        sinks: Sequence[Name],
        sources: Sequence[Name],
        once: Mapping[Name, int],
    ) -> None:
        self._links, self._sinks, self._sources, self._operations = links, sinks, sources, operations
        self._numbers = {name: k for k, name in enumerate(operations)}
        self._kept: list[object] = []  # what the tables point to
        self._tracks = (_Track * len(operations))()
        self._bounds = (_Bound * len(links))()
        waits: dict[Name, list[int]] = {name: [] for name in operations}
        serves: dict[Name, list[int]] = {name: [] for name in operations}
        for k, (bound, link) in enumerate(zip(self._bounds, links, strict=True)):
            bound.here, bound.there = self._numbers[link.here], self._numbers[link.there]
            self._fill(bound.at, link.at)
            self._fill(bound.after, link.after)
            waits[link.here].append(k)
            serves[link.there].append(k)
        for track, (name, count) in zip(self._tracks, operations.items(), strict=True):
            track.operations, track.once = count, once.get(name, 0)
            track.waits, track.waits_count = self._array(waits[name]), len(waits[name])
            track.serves, track.serves_count = self._array(serves[name]), len(serves[name])

    def _array(self, numbers: Sequence[int] | np.ndarray) -> int:
        array = np.ascontiguousarray(numbers, dtype=np.int64)
        self._kept.append(array)
        return array.ctypes.data

    def _fill(self, table: _List, numbers: AffineSequence) -> None:
        turns = (_Turns * len(numbers.turns))()
        for entry, loop in zip(turns, numbers.turns, strict=True):
            entry.first, entry.count, entry.step = loop.first, loop.count, loop.step
            entry.length, entry.pattern = len(loop.pattern), self._array(loop.pattern)
        self._kept.append(turns)
        table.turns, table.kinds = turns, len(turns)

    def _connect(self, law: Law) -> None:
        """Let a solution begin with the tables, and with the delays and lags of the links as they are now."""
        law.tracks, law.bounds = self._tracks, self._bounds
        law.tracks_count, law.bounds_count = len(self._tracks), len(self._bounds)
        for bound, link in zip(self._bounds, self._links, strict=True):
            bound.delay, bound.lag = link.delay, link.lag

    def frames(self, most: int, interval: int, rounds: Mapping[Name, int]) -> Iterator[FrameEnd]:
        """Yield one frame after the other, ``most`` at most; the end comes sooner where one never ends.

        To be read to its end, or left, before the next solution begins.

        Args:
            interval: cycles from one frame of every source to the next; see ``pace.offers``.
            rounds: of every source in a frame.
        """
        library = _library()
        assert library is not None
        law = Law()
        self._connect(law)
        law.rounds, law.interval = reduce(gcd, (rounds[name] for name in self._sources), 0) or 1, interval
        for name in self._sources:
            track = self._tracks[self._numbers[name]]
            track.sources, track.pace = rounds[name], interval // rounds[name]
        awake = (ctypes.c_int64 * (2 * len(self._tracks)))()
        memory = (ctypes.c_int64 * library.law_memory(ctypes.byref(law)))()
        law.awake, law.memory = ctypes.addressof(awake), ctypes.addressof(memory)
        try:
            library.law_begin(ctypes.byref(law), most)
            for _ in range(most):
                again = library.law_frame(ctypes.byref(law))
                if again == -2:
                    raise MemoryError("the tokens between two tracks take too much")
                if again < 0:
                    return
                ends = {name: int(self._tracks[self._numbers[name]].previous) for name in self._sinks}
                yield FrameEnd(ends, again)
        finally:
            library.law_end(ctypes.byref(law))
