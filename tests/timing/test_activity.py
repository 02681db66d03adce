"""Who works when and waits for whom, against firings counted one by one."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings

from onnx_hw.ir.design import Design
from onnx_hw.timing import activity as module
from onnx_hw.timing.activity import activity, waits_of
from onnx_hw.timing.prediction import Events
from support.hand_built_designs import unequal_branches
from support.random_designs import residuals

FRAMES = 3


@settings(max_examples=15, derandomize=True, deadline=None)
@given(residuals(3, 60))
def test_every_idle_cycle_has_one_cause_and_every_firing_one_place(design: Design) -> None:
    events = Events(design)
    offers = {e.tensor: np.zeros(FRAMES * e.beats, np.int64) for e in design.edges() if e.producer is None}
    (solved,) = deque(events.solutions(FRAMES, offers=offers), maxlen=1)
    found = activity(design, FRAMES, 17)
    assert found is not None and found.cycles <= 17 * found.step
    engines: dict[str, int] = {}
    for track, times in solved.items():
        node, fires = track.name[0], times.every[track.once :]
        if node in ("source", "sink") or times.fired < FRAMES * track.operations:
            continue
        count = track.operations
        idle = int(fires[-1] - fires[-1 - count]) - count
        waits = waits_of(track, solved, FRAMES - 1)
        assert sum(wait.cycles for wait in waits) == idle
        assert {wait.whom for wait in waits} <= {bound.other.name[0] for bound in track.bounds}
        engines[node] = engines.get(node, 0) + 1
        if engines[node] == 1:
            for frame, shares in enumerate(found.shares[node]):
                own = fires[frame * count : (frame + 1) * count]
                least = np.array([((own // found.step) == k).sum() for k in range(len(shares))]) / found.step
                assert (shares >= least - 1e-9).all() and shares.max() <= 1


def test_a_branch_waits_for_the_other_one() -> None:
    found = activity(unequal_branches(4), 2, 50)
    assert found is not None
    waits = found.waits["sum"]
    assert [(wait.what, wait.whom) for wait in waits[:1]] == [("a token on narrow.o", "narrow")]
    assert all(wait.whom != node for node, each in found.waits.items() for wait in each)


def test_too_much_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are the events written down, which takes gigabytes for large frames."""
    monkeypatch.setattr(module, "MAX_OPERATIONS", 10)
    monkeypatch.setattr(module, "Events", None)
    assert activity(unequal_branches(4), 2, 50) is None
