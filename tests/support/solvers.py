"""The solvers of the firing law, compiled and by its definition: they must find the same."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_hw.ir.design import Design
from onnx_hw.timing import native_solver, row_solver
from onnx_hw.timing.frame_times import Frames
from onnx_hw.timing.prediction import predict
from support.design_bench import random_stall

needs_compiler = pytest.mark.skipif(not native_solver.available(), reason="no C++ compiler for the native solver")


def assert_solvers_agree(design: Design, seed: int, interval: int) -> None:
    """On every firing of three frames under drawn stalls, and on the ends of eight that come at an interval."""
    stall = random_stall(design, 3, seed)
    native = predict(design, 4, offers=stall.offers, ready=stall.ready)
    by_rows = Frames(design).times(8, interval)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_solver, "available", lambda: False)
        patch.setattr(row_solver, "available", lambda: False)
        defined = predict(design, 4, offers=stall.offers, ready=stall.ready)
        assert by_rows == Frames(design).times(8, interval)
    assert native.waits == defined.waits
    for found, wanted in ((native.fires, defined.fires), (native.sinks, defined.sinks)):
        assert found.keys() == wanted.keys()
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted)  # type: ignore[index]
