"""The first difference of two recordings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onnx_hw_sim.circuit import Recording
from onnx_hw_sim.compare import Difference, first_difference

ONE = Recording(
    cycles=100,
    fires={"conv": np.array([3, 4, 5, 9])},
    cycles_of={"x": np.array([3, 4, 5]), "y": np.array([6, 7, 12])},
    tokens={"x": np.array([[1, 2], [3, 4], [5, 6]]), "y": np.array([[10, 20], [30, 40], [50, 60]])},
    finished=True,
)


def changed(tokens: dict[tuple[str, int, int], int]) -> Recording:
    arrays = {name: array.copy() for name, array in ONE.tokens.items()}
    for (name, token, lane), value in tokens.items():
        arrays[name][token, lane] = value
    return replace(ONE, tokens=arrays)


def test_equal_recordings_do_not_differ() -> None:
    assert first_difference(ONE, changed({})) is None


def test_the_earliest_wrong_value_is_told() -> None:
    difference = first_difference(ONE, changed({("x", 2, 0): 7, ("y", 0, 1): 8, ("y", 2, 0): 9}))
    assert difference == Difference("x", 2, cycle=5, lane=0, expected=5, got=7)
    assert str(difference) == "x: token 2, lane 0: expected 5, got 7, cycle 5"


def test_unused_lanes_may_hold_anything() -> None:
    wrong = changed({("y", 0, 1): 8, ("y", 2, 0): 9})
    mask = np.array([[True, False], [True, True], [True, True]])
    assert first_difference(ONE, wrong, {"y": mask}) == Difference("y", 2, 12, 0, 50, 9)
    assert first_difference(ONE, wrong, {"y": mask[:2]}) is None


def test_a_late_firing_is_told_before_what_follows_from_it() -> None:
    late = replace(
        ONE,
        fires={"conv": np.array([3, 4, 6, 10])},
        cycles_of={"x": np.array([3, 4, 6]), "y": np.array([6, 7, 13])},
    )
    difference = first_difference(ONE, late)
    assert difference == Difference("conv", 2, cycle=5, lane=None, expected=5, got=6)
    assert str(difference) == "conv: number 2 expected in cycle 5, came in cycle 6"


def test_missing_and_surplus_events_are_told() -> None:
    short = replace(ONE, fires={"conv": np.array([3, 4, 5])})
    assert first_difference(ONE, short) == Difference("conv", 3, 9, None, 9, None)
    assert first_difference(short, ONE) == Difference("conv", 3, 9, None, None, 9)
    assert str(first_difference(ONE, short)) == "conv: number 3 expected in cycle 9, came never"


def test_recordings_of_different_circuits_are_refused() -> None:
    with pytest.raises(ValueError, match="different circuits"):
        first_difference(ONE, replace(ONE, fires={"pool": np.array([1])}))
