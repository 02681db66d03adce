"""The firing law in windows of cycles: every operation, in memory that does not grow with the frames.

A large frame has more operations than there is room for, 400 million in a network of 224 × 224 pixels.
``window_solver.c`` computes each of them once its causes are known, as ``solver.c`` does, but only those before a
cycle; between two tracks it keeps the cycles of the tokens that are under way. What waits for an operation that is not
before the cycle is not before it, either, since no delay is negative: so nothing is left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.timing import row_solver
from onnx_hw.timing.constraints import Precedences
from onnx_hw.timing.prediction import BlockedEngine, Events, Prediction, circle_of
from onnx_hw.timing.window_solver import WindowSolver

Name = tuple[str, str]

WINDOW_CYCLES = 1 << 16
"""Cycles of a window, where there is no reason for another number."""


class EventWindows:
    """Prediction of a run, window by window; the same events as those of ``predict``.

    Args:
        design: the design, with its FIFO depths.
        frames: number of frames of operations, one more than is streamed; see ``prediction.Events.solve``.
        offers: per input tensor, the cycle from which each token is offered, (tokens,) int64.
        ready: per output tensor, the sink's trace of readiness, (cycles,) or (rounds, cycles).
        links: the bounds, where there are more than those of the design.

    Attributes:
        last: cycle of the last event so far; -1 before the first one.
        over: whether nothing happens later than that.
    """

    def __init__(
        self,
        design: Design,
        frames: int,
        offers: Mapping[str, np.ndarray],
        ready: Mapping[str, np.ndarray],
        links: Precedences | None = None,
    ) -> None:
        self.last, self.over, self._done = -1, False, 0
        self._whole: Prediction | None = None
        links = links or Precedences(design)
        self._tracks = (*links.engines, *(("sink", tensor) for _, tensor in links.sinks))
        if not row_solver.available():
            self._whole = Events(design, links=links).solve(frames, offers=offers, ready=ready)
            return
        links.set_depths(None)
        self._solver = WindowSolver({**links.engines, **links.sinks, **links.sources}, links.all, links.once)
        self._solver.begin(
            frames,
            {("source", tensor): cycles for tensor, cycles in offers.items()},
            {("sink", tensor): trace for tensor, trace in ready.items()},
        )

    def until(self, cycle: int) -> Mapping[Name, np.ndarray]:
        """Return the events before a cycle that were not returned yet: cycles by (node, engine) or ("sink", tensor)."""
        if self._whole is None:
            fired, self.over = self._solver.advance(cycle)
            events = {name: fired[name] for name in self._tracks}
        else:
            every = {**self._whole.fires, **{("sink", tensor): times for tensor, times in self._whole.sinks.items()}}
            events = {
                name: times[np.searchsorted(times, self._done) : np.searchsorted(times, cycle)]
                for name, times in every.items()
            }
            self.over = all(not len(times) or times[-1] < cycle for times in every.values())
        self._done = cycle
        self.last = max((int(times[-1]) for times in events.values() if len(times)), default=self.last)
        return events

    def circle(self) -> tuple[BlockedEngine, ...]:
        """Return the waits that hold each other up; see ``Prediction.circle``."""
        if self._whole is not None:
            return self._whole.circle()
        return circle_of(self._solver.blocked())

    def close(self) -> None:
        """Give back the memory."""
        if self._whole is None:
            self._solver.close()


def _windows(events: EventWindows) -> Iterator[Mapping[Name, np.ndarray]]:
    """Yield the events of a run that has not begun, window by window, and close it."""
    cycle = 0
    while not events.over:
        cycle += WINDOW_CYCLES
        yield events.until(cycle)
    events.close()


def token_cycles(
    design: Design, frames: int, offers: Mapping[str, np.ndarray], ready: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the predicted cycle of each token that leaves, by output tensor; arguments as for ``EventWindows``."""
    due = defaultdict[str, list[np.ndarray]](list)
    for fired in _windows(EventWindows(design, frames, offers, ready)):
        for (end, tensor), cycles in fired.items():
            if end == "sink":
                due[tensor].append(cycles)
    return {tensor: np.concatenate(pieces) for tensor, pieces in due.items()}


def event_cycles(events: EventWindows, wanted: Mapping[Name, np.ndarray]) -> dict[Name, np.ndarray]:
    """Return the cycles of certain events of a run that has not begun, and close it.

    Args:
        wanted: numbers of events by (node, engine) or ("sink", tensor), ascending.

    Returns:
        the cycles by the same names; fewer than were wanted where events never happen.
    """
    pieces: dict[Name, list[np.ndarray]] = {name: [np.zeros(0, dtype=np.int64)] for name in wanted}
    counts = dict.fromkeys(wanted, 0)
    for fired in _windows(events):
        for name, numbers in wanted.items():
            within = numbers - counts[name]
            pieces[name].append(fired[name][within[(within >= 0) & (within < len(fired[name]))]])
            counts[name] += len(fired[name])
    return {name: np.concatenate(found) for name, found in pieces.items()}
