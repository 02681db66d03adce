"""The firing law in windows of cycles by ``window_solver.c``; see ``event_windows.py``."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from onnx_hw.timing.native_code import compiled
from onnx_hw.timing.prediction import BlockedEngine
from onnx_hw.timing.row_solver import FrameSolver, Law, Name, NamedPrecedence
from onnx_hw_sim.stalls import RepeatedTrace

SOURCE = Path(__file__).with_name("window_solver.c")
HEADER = SOURCE.with_name("solver_events.h")


class _Window(ctypes.Structure):
    _fields_ = [
        ("ready", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("ready_length", "mask")),
        ("offers", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("offers_count", "offered")),
        ("cycles", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("room", "count")),
    ]


def _library() -> ctypes.CDLL:
    library = compiled(SOURCE, HEADER)
    assert library is not None, "the other solvers were compiled"
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.window_begin.argtypes, library.window_begin.restype = [pointer, pointer, number], None
    library.window_advance.argtypes, library.window_advance.restype = [pointer, pointer, number], number
    library.window_blocked.argtypes, library.window_blocked.restype = [pointer, number, number], number
    library.window_next.argtypes, library.window_next.restype = [pointer, number], number
    library.window_end.argtypes, library.window_end.restype = [pointer, pointer], None
    return library


class WindowSolver(FrameSolver):
    """Tracks that are solved once, window by window.

    Args:
        operations: operations of a frame, by track, sources among them.
        links: bounds between the tracks, with the delays and lags that count.
        once: operations before the first frame, of the tracks that have any.
    """

    def __init__(
        self, operations: Mapping[Name, int], links: Sequence[NamedPrecedence], once: Mapping[Name, int]
    ) -> None:
        super().__init__(operations, links, (), (), once)
        self._library, self._windows, self._law = _library(), (_Window * len(operations))(), Law()
        self._frames, self._open = 0, False

    def begin(self, frames: int, offers: Mapping[Name, np.ndarray], ready: Mapping[Name, np.ndarray]) -> None:
        """Begin a solution.

        Args:
            frames: number of frames of operations.
            offers: by source, the cycle from which each token is offered, ascending.
            ready: by sink, a trace of readiness, (cycles,) or (rounds, cycles); past its end it is always ready.
        """
        for name, cycles in offers.items():
            window, array = self._windows[self._numbers[name]], np.ascontiguousarray(cycles, dtype=np.int64)
            self._kept.append(array)
            window.offers, window.offers_count = array.ctypes.data, len(array)
        for name, trace in ready.items():
            window, repeated = self._windows[self._numbers[name]], RepeatedTrace(trace)
            self._kept.append(repeated.row)
            window.ready, window.ready_length = repeated.row.ctypes.data, repeated.length
            window.mask = repeated.mask
        law, self._frames, self._open = self._law, frames, True
        self._awake = (ctypes.c_int64 * (2 * len(self._tracks)))()
        self._connect(law)
        law.awake = ctypes.addressof(self._awake)
        self._library.window_begin(ctypes.byref(law), self._windows, frames)

    def advance(self, until: int) -> tuple[dict[Name, np.ndarray], bool]:
        """Find all operations before a cycle.

        Returns:
            by track, the cycles of those that were not returned yet, int64; and whether there are no later ones.
        """
        later = self._library.window_advance(ctypes.byref(self._law), self._windows, until)
        if later < 0:
            raise MemoryError("the tokens between two tracks take too much")
        fired = {}
        for name, window in zip(self._numbers, self._windows, strict=True):
            known = (ctypes.c_int64 * window.count).from_address(window.cycles) if window.count else ()
            fired[name] = np.array(known, dtype=np.int64)
        return fired, not later

    def blocked(self) -> tuple[BlockedEngine, ...]:
        """Return the tracks that never go on though there are operations left, and what they wait for."""
        law, waits = ctypes.byref(self._law), []
        for number, (name, count) in enumerate(self._operations.items()):
            operation, bounds, after = self._library.window_next(law, number), list[NamedPrecedence](), 0
            if operation >= self._frames * count or self._windows[number].offers:
                continue
            mine = [link for link in self._links if link.here == name]
            while (after := self._library.window_blocked(law, number, after) + 1) > 0:
                bounds.append(mine[after - 1])
            what = " and ".join(link.what for link in bounds)
            waits.append(BlockedEngine(name, operation, what, tuple(link.there for link in bounds)))
        return tuple(waits)

    def close(self) -> None:
        """Give back the memory of the solution."""
        if self._open:
            self._open = False
            self._library.window_end(ctypes.byref(self._law), self._windows)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()
