"""The least solution of the firing law by ``solver.c``: the same answers as ``solver.py``, some hundred times faster.

Compiled once per machine with whatever compiler there is; without one, the definition in Python serves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from onnx_hw.timing.native_code import compiled
from onnx_hw.timing.solver import Times, Track, stops_of

SOURCE = Path(__file__).with_name("solver.c")


class _Bound(ctypes.Structure):
    _fields_ = [
        ("at", ctypes.c_void_p),
        ("after", ctypes.c_void_p),
        ("tokens", ctypes.c_int64),
        ("other", ctypes.c_int64),
        ("delay", ctypes.c_int64),
        ("lag", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in ("stop", "here", "here_frame", "there", "there_frame")),
    ]


class _Track(ctypes.Structure):
    _fields_ = [
        ("gaps", ctypes.c_void_p),
        ("stops", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("cycles", ctypes.c_void_p),
        ("place", ctypes.c_int64),
        ("previous", ctypes.c_int64),
        ("ready", ctypes.c_void_p),
        ("ready_length", ctypes.c_int64),
        ("bounds", ctypes.c_int64),
        ("bound", ctypes.POINTER(_Bound)),
        *((name, ctypes.c_int64) for name in ("first_asleep", "next_asleep", "lacks")),
    ]


def available() -> bool:
    """Return whether there is a compiler."""
    return _library() is not None


class Solver:
    """Tracks, all that bounds name, made ready for many solutions with other delays and lags."""

    def __init__(self, tracks: Sequence[Track]) -> None:
        self._tracks = tracks
        self._stops = stops_of(tracks)
        number = {track: k for k, track in enumerate(tracks)}
        self._table = (_Track * len(tracks))()
        self._awake = (ctypes.c_int64 * len(tracks))()
        self._arrays: list[np.ndarray] = []  # what the table points to
        for entry, track in zip(self._table, tracks, strict=True):
            stops = self._stops[track]
            entry.stops = len(stops)
            if len(stops) < track.operations:
                entry.gaps = self._keep(np.diff(stops, prepend=stops[-1:] - track.operations))
            entry.bounds = len(track.bounds)
            entry.bound = (_Bound * len(track.bounds))()
            for row, bound in zip(entry.bound, track.bounds, strict=False):
                row.at = self._keep_unless_all(np.searchsorted(stops, bound.at))
                row.after = self._keep_unless_all(np.searchsorted(self._stops[bound.other], bound.after))
                row.tokens, row.other = len(bound.at), number[bound.other]

    def _keep(self, array: np.ndarray) -> int:
        self._arrays.append(np.ascontiguousarray(array, dtype=np.int32))
        return self._arrays[-1].ctypes.data

    def _keep_unless_all(self, numbers: np.ndarray) -> int | None:
        """Return a list unless it is 0, 1, 2, ..., as most are: such a list need not be read."""
        return None if np.array_equal(numbers, np.arange(len(numbers))) else self._keep(numbers)

    def solutions(
        self, frames: int, known: Mapping[Track, np.ndarray], ready: Mapping[Track, np.ndarray]
    ) -> Iterator[dict[Track, Times]]:
        """Yield what ``solver.solutions`` does. To be read to its end, or left, before the next solution begins."""
        library = _library()
        assert library is not None
        counts = [len(known[t]) if t in known else frames * len(self._stops[t]) for t in self._tracks]
        room = np.empty(sum(counts), dtype=np.int64)  # one piece, for the sake of large pages
        cycles = dict(zip(self._tracks, np.split(room, np.cumsum(counts)[:-1]), strict=True))
        traces = {track: np.ascontiguousarray(trace, dtype=np.uint8) for track, trace in ready.items()}
        table = list(zip(self._table, self._tracks, strict=True))
        for entry, track in table:
            stops = self._stops[track]
            entry.cycles, entry.place, entry.done = cycles[track].ctypes.data, 0, 0
            entry.previous = track.once + int(stops[-1]) - track.operations if len(stops) else 0
            if track in known:
                cycles[track][:] = known[track]
                entry.done = entry.count = len(known[track])
            entry.ready = traces[track].ctypes.data if track in traces else None
            entry.ready_length = len(traces[track]) if track in traces else 0
            for row, bound in zip(entry.bound, track.bounds, strict=False):
                row.delay, row.lag = bound.delay, bound.lag
        library.law_start(self._table, len(table))
        for frame in range(1, frames + 1):
            for entry, track in table:
                if track not in known:
                    entry.count = frame * entry.stops
            library.law_advance(self._table, len(table), self._awake)
            yield {t: self._times(t, cycles[t][: entry.done], frame, entry.done == entry.count) for entry, t in table}

    def _times(self, track: Track, cycles: np.ndarray, frames: int, complete: bool) -> Times:
        stops = self._stops[track]
        if len(stops) == track.operations:
            return Times(track, stops, cycles, len(cycles))
        if complete:
            return Times(track, stops, cycles, frames * track.operations)
        frame, place = divmod(len(cycles), len(stops))
        return Times(track, stops, cycles, frame * track.operations + int(stops[place]))


@cache
def _library() -> ctypes.CDLL | None:
    library = compiled(SOURCE)
    if library is not None:
        library.law_start.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        library.law_advance.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        library.law_start.restype = library.law_advance.restype = None
    return library
