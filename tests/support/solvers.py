"""The solvers of the firing law, compiled, in windows and by its definition: they must find the same."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_hw.ir.design import Design
from onnx_hw.prove.circuit.stalls import Stall
from onnx_hw.timing import native_solver, row_solver
from onnx_hw.timing.event_windows import EventWindows
from onnx_hw.timing.frame_times import Frames
from onnx_hw.timing.prediction import BlockedEngine, predict
from support.design_bench import random_stall

needs_compiler = pytest.mark.skipif(not native_solver.available(), reason="no C++ compiler for the native solver")


def assert_solvers_agree(design: Design, seed: int, interval: int) -> None:
    """On every firing of three frames under drawn stalls, and on the ends of eight that come at an interval."""
    stall = random_stall(design, 3, seed)
    windows = in_windows(design, stall, 1 + seed % 40)
    native = predict(design, 4, offers=stall.offers, ready=stall.ready)
    by_rows = Frames(design).times(8, interval)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_solver, "available", lambda: False)
        patch.setattr(row_solver, "available", lambda: False)
        defined = predict(design, 4, offers=stall.offers, ready=stall.ready)
        assert by_rows == Frames(design).times(8, interval)
        defined_windows = in_windows(design, stall, 1 + seed % 40)
    assert native.waits == defined.waits
    for found, wanted in ((native.fires, defined.fires), (native.sinks, defined.sinks)):
        assert found.keys() == wanted.keys()
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted)  # type: ignore[index]
    every = {**defined.fires, **{("sink", tensor): cycles for tensor, cycles in defined.sinks.items()}}
    for events, last, circle in (windows, defined_windows):
        assert events.keys() == every.keys()
        assert all(np.array_equal(events[name], every[name]) for name in every)
        assert last == max((int(cycles[-1]) for cycles in every.values() if len(cycles)), default=-1)
        assert circle == defined.circle()


def in_windows(
    design: Design, stall: Stall, cycles: int
) -> tuple[dict[tuple[str, str], np.ndarray], int, tuple[BlockedEngine, ...]]:
    """All events of three frames and of the one that never comes, the last cycle, and the waits of a deadlock."""
    windows, until = EventWindows(design, 4, stall.offers, stall.ready), 0
    pieces: dict[tuple[str, str], list[np.ndarray]] = {}
    while not windows.over:
        for name, events in windows.until(until := until + cycles).items():
            assert not len(events) or until - cycles <= events[0] <= events[-1] < until
            pieces.setdefault(name, []).append(events)
    circle = windows.circle()
    windows.close()
    return {name: np.concatenate(events) for name, events in pieces.items()}, windows.last, circle
