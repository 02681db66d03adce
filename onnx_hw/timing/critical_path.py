"""The critical path of a frame alone: the chain of operations, each fired as soon as the one before allowed it, that
ends with the last token of the frame.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnx_hw.timing.solver import Times, Track


def busy_cycles(times: Mapping[Track, Times]) -> dict[str, int]:
    """Return the cycles that each node spends on the critical path of the first frame, by node.

    An operation belongs to the path of the next one if it is the reason why that does not fire a cycle sooner. Cycles
    in which a token only travels, and those of sources and sinks, belong to no node.

    Args:
        times: solution for one frame, in which every operation fires.
    """
    every = {track: time.every[track.once :] for track, time in times.items()}
    starts = {track: _starts(cycles) for track, cycles in every.items()}
    track = max((track for track in every if track.name[0] == "sink"), key=lambda track: int(every[track][-1]))
    operation, busy = len(every[track]) - 1, dict[str, int]()
    while operation >= 0:
        cycle = int(every[track][operation])
        first = int(starts[track][operation])
        if first < operation:  # it follows the operation before at once, and so do those before
            if track.name[0] not in ("source", "sink"):
                busy[track.name[0]] = busy.get(track.name[0], 0) + operation - first
            operation = first
            continue
        cause = None
        for bound, before in track.causes(operation):
            if before < len(every[bound.other]) and int(every[bound.other][before]) + bound.delay == cycle:
                cause = bound.other, before
                break
        if cause is None:
            return busy
        if track.name[0] == bound.other.name[0]:
            busy[track.name[0]] = busy.get(track.name[0], 0) + bound.delay
        track, operation = cause
    return busy


def _starts(cycles: np.ndarray) -> np.ndarray:
    """Return for each operation the first one of the run of consecutive cycles that it belongs to."""
    numbers = np.arange(len(cycles))
    begins = np.ones(len(cycles), dtype=bool)
    begins[1:] = np.diff(cycles) != 1
    return np.maximum.accumulate(np.where(begins, numbers, 0))
