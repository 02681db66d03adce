"""Two recordings of the same stimulus: do they agree on every value, every transfer and every firing?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from onnx_hw_sim.circuit import Recording


@dataclass(frozen=True)
class Difference:
    """One thing that one recording has and the other has not.

    Attributes:
        where: stream or engine.
        number: of the token, or of the firing.
        cycle: when the earlier of the two saw it.
        lane: of the wrong value; None if it is the cycle that is wrong.
        expected, got: the values, or the cycles; None for an event that never came.
    """

    where: str
    number: int
    cycle: int
    lane: int | None
    expected: int | None
    got: int | None

    def __str__(self) -> str:
        if self.lane is not None:
            place = f"{self.where}: token {self.number}, lane {self.lane}"
            return f"{place}: expected {self.expected}, got {self.got}, cycle {self.cycle}"
        expected, got = ("never" if at is None else f"in cycle {at}" for at in (self.expected, self.got))
        return f"{self.where}: number {self.number} expected {expected}, came {got}"


def first_difference(
    expected: Recording, got: Recording, used: Mapping[str, np.ndarray] | None = None
) -> Difference | None:
    """The earliest difference in time, or None.

    Args:
        used: per stream, (tokens, lanes) bool: lanes that carry a value. Other lanes, and tokens beyond the mask, may
            hold anything. A stream without a mask is compared in full.

    Raises:
        ValueError: the recordings are of different circuits.
    """
    for names, others in ((expected.fires, got.fires), (expected.tokens, got.tokens)):
        if names.keys() != others.keys():
            raise ValueError(f"the recordings are of different circuits: {sorted(names)} and {sorted(others)}")
    found = [_event(engine, cycles, got.fires[engine]) for engine, cycles in expected.fires.items()]
    for stream, cycles in expected.cycles_of.items():
        found.append(_value(stream, expected, got, (used or {}).get(stream)))
        found.append(_event(stream, cycles, got.cycles_of[stream]))
    # At the same moment a wrong value says more than a wrong time; `min` takes the first of equals.
    return min((d for d in found if d is not None), key=lambda d: (d.cycle, d.lane is None), default=None)


def _event(where: str, expected: np.ndarray, got: np.ndarray) -> Difference | None:
    both = min(len(expected), len(got))
    unequal = np.flatnonzero(expected[:both] != got[:both])
    if not len(unequal) and len(expected) == len(got):
        return None
    number = int(unequal[0]) if len(unequal) else both
    want, have = (int(cycles[number]) if number < len(cycles) else None for cycles in (expected, got))
    return Difference(where, number, min(c for c in (want, have) if c is not None), None, want, have)


def _value(stream: str, expected: Recording, got: Recording, used: np.ndarray | None) -> Difference | None:
    want, have = expected.tokens[stream], got.tokens[stream]
    both = min(len(want), len(have))
    unequal = want[:both] != have[:both]
    if used is not None:
        unequal = unequal[: len(used)] & used[:both]
    places = np.argwhere(unequal)
    if not len(places):
        return None
    token, lane = map(int, places[0])
    cycle = min(int(recording.cycles_of[stream][token]) for recording in (expected, got))
    return Difference(stream, token, cycle, lane, int(want[token, lane]), int(have[token, lane]))
