"""Who works when, and who waits for whom, while a few frames pass a design at full rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.timing.constraints import Precedences
from onnx_hw.timing.prediction import Events
from onnx_hw.timing.solver import Times, Track

MAX_OPERATIONS = 20_000_000
"""Operations in all frames that are solved and looked at: a second or two, and some hundred megabytes."""


@dataclass(frozen=True)
class Waiting:
    """Cycles of the last frame in which a core is idle because of another one."""

    what: Annotated[str, "the missing thing: a token, or room for one"]
    whom: Annotated[str, "name of the core that must act first; `source` or `sink` for the outside"]
    cycles: Annotated[int, "clock cycles of the frame"]


@dataclass(frozen=True)
class Activity:
    """Activity of a design's engines while frames come as fast as they are taken.

    Attributes:
        cycles: from reset to the last operation of the last frame.
        step: cycles of a step.
        shares: by node, (frames, steps) float64: of the step's cycles, how many its busiest engine works on the frame.
        waits: by node, what its engines wait for in the last frame, its own engines left out; the longest first.
    """

    cycles: int
    step: int
    shares: Mapping[str, np.ndarray]
    waits: Mapping[str, tuple[Waiting, ...]]


def activity(design: Design, frames: int, steps: int) -> Activity | None:
    """Return the activity in a number of frames, within a number of steps; None where it is too long to look at."""
    links = Precedences(design)
    operations = sum(sum(tracks.values()) for tracks in (links.engines, links.sinks, links.sources))
    if operations * frames > MAX_OPERATIONS:  # asked before the events are written down, which takes gigabytes
        return None
    offers = {e.tensor: np.zeros(frames * e.beats, np.int64) for e in design.edges() if e.producer is None}
    events = Events(design, links=links)
    (solved,) = deque(events.solutions(frames, offers=offers), maxlen=1)
    engines = {track: times for track, times in solved.items() if track.name[0] not in ("source", "sink")}
    cycles = 1 + max(int(times.cycles[-1]) for times in solved.values() if len(times.cycles))
    step = -(-cycles // steps)
    shares: dict[str, np.ndarray] = {}
    waits: dict[str, list[Waiting]] = {}
    for track, times in engines.items():
        node, fires = track.name[0], times.every[track.once :]
        before = shares.setdefault(node, np.zeros((frames, -(-cycles // step))))
        for frame in range(frames):
            own = fires[frame * track.operations : (frame + 1) * track.operations]
            worked = np.bincount(own // step, minlength=before.shape[1])[: before.shape[1]] / step
            before[frame] = np.maximum(before[frame], worked)
        waits.setdefault(node, []).extend(waits_of(track, solved, frames - 1))
    longest = {
        node: tuple(sorted((wait for wait in found if wait.whom != node), key=lambda wait: -wait.cycles))
        for node, found in waits.items()
    }
    return Activity(cycles, step, shares, longest)


def waits_of(track: Track, solved: Mapping[Track, Times], frame: int) -> list[Waiting]:
    """Return the tracks for which the operations of a frame are later than one cycle after the one before."""
    first, fires = frame * track.operations, solved[track].every[track.once :]
    own = fires[first : first + track.operations]
    if not first or len(own) < track.operations:
        return []
    idle = own - fires[first - 1 : first - 1 + track.operations] - 1
    waits = []
    for bound in track.bounds:
        tokens = len(bound.at)
        numbers = frame * tokens + np.arange(tokens) - bound.lag
        before, there = np.divmod(numbers, tokens)
        causes = before * bound.other.operations + bound.after[there]
        others = solved[bound.other].every[bound.other.once :]
        known = (numbers >= 0) & (causes < len(others))
        decides = np.zeros(tokens, dtype=bool)
        decides[known] = others[causes[known]] + bound.delay == own[bound.at[known]]
        places = bound.at[decides]
        cycles = int(idle[places].sum())
        idle[places] = 0  # of several that are due in the same cycle, the first counts
        if cycles:
            waits.append(Waiting(bound.what, bound.other.name[0], cycles))
    return waits
