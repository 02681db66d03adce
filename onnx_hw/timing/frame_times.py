"""When frames leave a design, whatever their size: all that the choice of FIFOs and the report want to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.ops.schedule import Schedule
from onnx_hw.ops.stream_order import Order
from onnx_hw.timing import row_solver, steady_state
from onnx_hw.timing.constraints import Precedences
from onnx_hw.timing.prediction import Events
from onnx_hw.timing.row_solver import ALWAYS, FrameEnd, FrameSolver

MIN_ROUND_CYCLES = 128
"""Cycles of a round at least. Rounds last whole cycles; those that a frame leaves over are a pause after its last."""


@dataclass(frozen=True)
class FrameTimes:
    """Cycles of the last tokens of all frames that end, per sink, and whether all of them do."""

    cycles: tuple[tuple[int, ...], ...]
    live: bool

    def elapsed(self, first: int, last: int) -> int:
        """Return the cycles between the last tokens of two frames (counted from 1), the slowest output counting."""
        return max(cycles[last - 1] - cycles[first - 1] for cycles in self.cycles)

    def latency(self) -> int:
        """Return the cycles from 0 until the last token of the first frame has left, the slowest output counting."""
        return max(cycles[0] for cycles in self.cycles) + 1


class Frames:
    """A design that is asked when its frames leave, for several depths and paces."""

    def __init__(self, design: Design, schedules: Mapping[str, Schedule] | None = None) -> None:
        self._design, self._schedules = design, schedules
        self._links = links = Precedences(design, schedules)
        tracks = {**links.engines, **links.sinks, **links.sources}
        self._solver: FrameSolver | None = None
        if row_solver.available():
            self._solver = FrameSolver(tracks, links.all, tuple(links.sinks), tuple(links.sources), links.once)
        self._by_definition: Events | None = None

    def times(self, frames: int, interval: int, depths: Mapping[str, int] | None = None) -> FrameTimes:
        """Return the times of ``frames`` frames, as far as they end.

        Args:
            interval: cycles from one frame of the inputs to the next, evenly offered; 0 for all at once.
            depths: per edge, instead of the design's own FIFO depths.
        """
        ends: list[Mapping[tuple[str, str], int]] = []
        for end in self.solutions(frames, interval, depths):
            ends.append(end.cycles)
            if end.again >= frames - len(ends) > 0:
                step = {sink: ends[-1][sink] - ends[-2][sink] for sink in end.cycles}
                more = range(1, frames - len(ends) + 1)
                ends += [{sink: end.cycles[sink] + k * step[sink] for sink in step} for k in more]
                break
        return FrameTimes(tuple(tuple(end[sink] for end in ends) for sink in self._links.sinks), len(ends) == frames)

    def sustains(self, interval: int, settled: int, frames: int, depths: Mapping[str, int] | None = None) -> bool:
        """Return whether frames, offered every ``interval`` cycles, leave as fast in the long run.

        Certain where the solution repeats itself. It is given up when, once ``settled`` frames have left, two in a row
        were late; where it does not repeat itself in ``frames`` frames, the average of those after ``settled`` counts.
        """
        ends: list[FrameEnd] = []
        for end in self.solutions(frames, interval, depths):
            ends.append(end)
            late = [[b.cycles[sink] - a.cycles[sink] > interval for a, b in pairwise(ends[-3:])] for sink in end.cycles]
            if end.again == ALWAYS:
                return not any(gaps[-1] for gaps in late)
            if len(ends) >= settled and any(all(gaps) for gaps in late):
                return False
        if len(ends) < frames:
            return False
        first, last = ends[settled - 1].cycles, ends[-1].cycles
        return all(last[sink] - first[sink] <= interval * (frames - settled) for sink in last)

    def solutions(self, frames: int, interval: int, depths: Mapping[str, int] | None = None) -> Iterator[FrameEnd]:
        """Yield the solution frame by frame; the end comes sooner if one never leaves. Arguments as for ``times``."""
        if self._solver is None:
            yield from self._defined(frames, interval, depths)
            return
        self._links.set_depths(depths)
        rounds = {("source", e.tensor): rounds_of(e.order, interval) for e in self._links.edges if e.producer is None}
        yield from self._solver.frames(frames, interval, rounds)

    def _defined(self, frames: int, interval: int, depths: Mapping[str, int] | None) -> Iterator[FrameEnd]:
        """Solve the same without a compiler, by the definition of the law."""
        if self._by_definition is None:
            self._by_definition = Events(self._design, self._schedules)
        sources = [edge for edge in self._links.edges if edge.producer is None]
        offers = {edge.tensor: paced_offers(edge.order, interval, frames) for edge in sources}
        for solved, times in enumerate(self._by_definition.solutions(frames, offers=offers, depths=depths), start=1):
            if any(time.fired < solved * track.operations for track, time in times.items()):
                return
            again = steady_state.period(times, solved, frames) is not None
            ends = {track.name: int(time.cycles[-1]) for track, time in times.items() if track.name[0] == "sink"}
            yield FrameEnd(ends, ALWAYS if again else 0)


def rounds_of(order: Order, interval: int) -> int:
    """Return the number of equal parts of a frame: one per row (or pixel of the only row) at most, of whole cycles.

    A part that does not last a whole number of cycles by itself has ``MIN_ROUND_CYCLES`` of them or more, so that what
    is rounded does not matter. With an interval of 0 all tokens are offered at once.
    """
    height, width, _ = order.tensor.shape
    whole = gcd(height if height > 1 else width, order.beats)
    divisors = (parts for parts in range(whole, 0, -1) if whole % parts == 0)
    return next(
        parts for parts in divisors if interval % parts == 0 or parts * MIN_ROUND_CYCLES <= interval or parts == 1
    )


def paced_offers(order: Order, interval: int, frames: int) -> np.ndarray:
    """Return the cycle from which each token is offered, evenly within each round: (frames · beats,) int64."""
    rounds = rounds_of(order, interval)
    beats, cycles = order.beats // rounds, interval // rounds
    frame, token = np.divmod(np.arange(frames * order.beats), order.beats)
    return frame * interval + token // beats * cycles + token % beats * cycles // beats
