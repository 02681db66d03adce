"""Of 65,535 constraints a few are looked at, and the multiplication that is found is the same."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.exact import multiply_add_shift
from onnx_hw.exact.convex_hull import corners
from onnx_hw.exact.grid import Grid
from onnx_hw.exact.integers import Int
from onnx_hw.exact.step_function import Steps, steps


@st.composite
def functions(draw: st.DrawFn) -> Steps:
    """Of one to three channels: tiny and steep ones, ties, constants, ends that are not reached."""
    reach = 2 ** draw(st.integers(1, 17))
    base = Fraction(1, draw(st.sampled_from([1, 3, 64, 100, 1024])))
    times = st.sampled_from([1, 2, Fraction(3, 2), Fraction(9, 7), Fraction(1, 36)])
    slopes = draw(st.lists(times, min_size=1, max_size=3))
    halves = draw(st.lists(st.integers(-99, 99), min_size=len(slopes), max_size=len(slopes)))
    return steps(
        [base * slope for slope in slopes],  # type: ignore[operator]
        [Fraction(half, 2) for half in halves],
        Grid.over(Int(draw(st.sampled_from([1, 2, 4, 8])), signed=False), zero_point=draw(st.integers(-2, 2))),
        first=-draw(st.integers(0, reach)),
        last=draw(st.integers(1, reach)),
    )


def test_what_is_left_out_never_mattered(monkeypatch: pytest.MonkeyPatch) -> None:
    found = 0

    @settings(max_examples=150, derandomize=True, deadline=None)
    @given(functions())
    def every_function(exact: Steps) -> None:
        nonlocal found
        by_corners = multiply_add_shift.find(exact)
        with monkeypatch.context() as patched:
            patched.setattr(multiply_add_shift, "corners", lambda t, *_: np.tile(np.arange(t.shape[1]), (len(t), 1)))
            by_all = multiply_add_shift.find(exact)
        assert (by_corners is None) == (by_all is None)
        if by_corners is not None and by_all is not None:
            found += 1
            for field in ("shift", "tie_bit", "clamp"):
                assert getattr(by_corners, field) == getattr(by_all, field)
            assert by_corners.multipliers.tolist() == by_all.multipliers.tolist()
            assert by_corners.addends.tolist() == by_all.addends.tolist()

    every_function()
    assert found > 100


def test_a_straight_line_has_few_corners() -> None:
    """A layer of 16-bit data: whatever is searched, it is no search among all values of all channels."""
    slopes, ends = [Fraction(1, 811), Fraction(1, 79)], (-(2**30), 2**30)
    line = steps(slopes, [Fraction(5)], Grid.over(Int(16)), *ends)
    columns = corners(line.thresholds, np.arange(65535) % 2 == 1, line.reached, line.missed)
    assert columns.shape[1] < 200
    assert (np.diff(columns) >= 0).all()
