"""When a solution of the firing law repeats itself: what a few frames say about all later ones.

Let every operation of the newest frame of *every* track fire ``period`` cycles after the same operation of the frame
before; where other tracks wait for operations that lie further back, let the same hold for those frames. Then it holds
for the next frame too, by induction over its operations in the order in which they become known. One fires no later,
since each of its causes comes no more than ``period`` after a cause of the operation one frame earlier; and no earlier,
since the cause that made that operation wait comes again, ``period`` later. Only a bound with a ``lag`` of frames may
speak up for the first time; whether it then asks for more than the repetition gives is looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from onnx_hw.timing.solver import Precedence, Times, Track


def sustains(
    solutions: Iterable[Mapping[Track, Times]], sinks: Collection[Track], interval: int, settled: int, frames: int
) -> bool:
    """Return whether frames leave every ``interval`` cycles in the long run.

    Certain where the solution repeats itself. It is given up when, once ``settled`` frames have left, two in a row were
    late; where it does not repeat itself in ``frames`` frames, the average of those after ``settled`` counts.

    Args:
        solutions: for one frame, for two, ... and for ``frames``.
    """
    gaps: list[list[int]] = []
    for solved, times in enumerate(solutions, start=1):
        if any(time.fired < solved * track.operations for track, time in times.items()):
            return False
        repeats = period(times, solved, frames)
        if repeats is not None:
            return repeats <= interval
        ends = (times[sink].cycles[sink.operations - 1 :: sink.operations] for sink in sinks)
        gaps = [np.diff(end).tolist() for end in ends]
        if solved >= settled and any(min(gap[-2:]) > interval for gap in gaps):
            return False
    return all(sum(gap[settled - 1 :]) <= interval * (frames - settled) for gap in gaps)


def period(times: Mapping[Track, Times], solved: int, frames: int) -> int | None:
    """Return the cycles after which a solution repeats itself, from its newest frame on; None if it does not, or not
    yet.

    Args:
        times: complete for ``solved`` frames; those of sources for all ``frames``.
        frames: how far the repetition must hold.
    """
    newest = solved - 1
    bounds = [
        (track, bound) for track in times for bound in track.bounds if bound.lag < frames * len(bound.at)
    ]  # no other ever holds
    back = dict.fromkeys(times, 1)
    for _, bound in bounds:
        back[bound.other] = max(back[bound.other], -(-bound.lag // len(bound.at)))
    period: int | None = None
    for track, time in times.items():
        stops = len(time.stops)
        if not stops:
            continue
        known = len(time.cycles) // stops  # frames; more than those solved at a source
        ahead = time.cycles[stops:] - time.cycles[:-stops]
        compared = ahead[max(0, newest - back[track]) * stops : (known - 1) * stops]
        if not len(compared):
            return None
        period = int(compared[0]) if period is None else period
        if (compared != period).any():
            return None
    if period is None or not all(_holds(track, bound, times, newest, frames, period) for track, bound in bounds):
        return None
    return period


def _holds(
    track: Track, bound: Precedence, times: Mapping[Track, Times], newest: int, frames: int, period: int
) -> bool:
    """Return whether a bound that begins to hold after the newest frame asks for no more than the repetition."""
    tokens = len(bound.at)
    numbers = np.arange(max(bound.lag, (newest + 1) * tokens), min(bound.lag + tokens, frames * tokens))
    if not len(numbers):
        return True
    here, there = times[track], times[bound.other]
    stops = np.searchsorted(here.stops, bound.at[numbers % tokens]) + newest * len(here.stops)
    repeated = here.cycles[stops] + (numbers // tokens - newest) * period
    causes = np.searchsorted(there.stops, bound.after[numbers - bound.lag])
    return bool((there.cycles[causes] + bound.delay <= repeated).all())
