"""Stall patterns: their properties, and that a seed keeps its meaning."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw_sim import stalls


def runs(trace: np.ndarray) -> list[tuple[bool, int]]:
    """Return (value, length) of the runs of equal values."""
    edges = np.flatnonzero(np.diff(trace)) + 1
    return [(bool(part[0]), len(part)) for part in np.split(trace, edges) if len(part)]


@given(tokens=st.integers(0, 200), interval=st.integers(1, 500), per_frame=st.integers(1, 50))
def test_paced_offers_spread_each_frame_over_its_interval(tokens: int, interval: int, per_frame: int) -> None:
    offers = stalls.paced(tokens, interval, per_frame)
    assert offers.tolist() == [
        (k // per_frame) * interval + k % per_frame * interval // per_frame for k in range(tokens)
    ]


@given(seed=st.integers(0, 2**32), p=st.floats(0.05, 1.0))
def test_random_offers_ascend_with_the_mean_gap_asked_for(seed: int, p: float) -> None:
    offers = stalls.random_offers(4000, p, seed)
    assert (np.diff(offers) >= 1).all()
    assert offers[0] >= 0
    assert offers[-1] / 4000 == pytest.approx(1 / p, rel=0.15)


def test_what_is_held_back_comes_and_what_is_frozen_thaws() -> None:
    assert stalls.held_offers(5, 2, 30).tolist() == [0, 0, 30, 30, 30]
    assert stalls.frozen_ready(2, 3).tolist() == [True, True, False, False, False]


@given(seed=st.integers(0, 2**32), longest=st.integers(1, 9), pause=st.integers(1, 9))
def test_bursts_and_pauses_keep_to_their_lengths(seed: int, longest: int, pause: int) -> None:
    offered = np.zeros(5000, dtype=bool)
    offered[stalls.burst_offers(300, longest, pause, seed)] = True
    for trace in (offered[: np.flatnonzero(offered)[-1] + 1], stalls.burst_ready(1000, longest, pause, seed)):
        for value, length in runs(trace):
            assert length <= (longest if value else pause)
        assert not trace.all()


def test_random_ready_has_the_density_asked_for() -> None:
    trace = stalls.random_ready(20_000, 0.3, seed=5)
    assert trace.dtype == bool
    assert trace.mean() == pytest.approx(0.3, abs=0.02)


def test_a_seed_keeps_its_meaning() -> None:
    assert stalls.random_offers(6, 0.4, seed=1).tolist() == [1, 7, 8, 14, 15, 17]
    assert stalls.burst_offers(6, 3, 4, seed=1).tolist() == [4, 5, 8, 9, 10, 14]
    assert np.flatnonzero(stalls.random_ready(12, 0.5, seed=1)).tolist() == [2, 4, 5, 7, 9]
    assert np.flatnonzero(stalls.burst_ready(12, 3, 4, seed=1)).tolist() == [0, 1, 4, 5, 6, 11]


@pytest.mark.parametrize("p", [0.0, -0.5, 1.5])
def test_refuses_what_is_not_a_probability(p: float) -> None:
    with pytest.raises(ValueError, match="a probability must be in"):
        stalls.random_ready(3, p, seed=0)


def test_the_unstalled_outside_is_at_once_and_always() -> None:
    assert stalls.at_once(3).tolist() == [0, 0, 0]
    assert stalls.always(2).tolist() == [True, True]


def test_long_traces_are_made_in_pieces_of_the_same_random_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: one number a cycle; and the bursts of all cycles, then the pauses of all cycles."""
    monkeypatch.setattr(stalls, "PIECE", 7)
    numbers = np.ldexp((np.random.PCG64(5).random_raw(400) >> np.uint64(11)).astype(float), -53)
    assert np.array_equal(stalls.random_ready(200, 0.3, 5), numbers[:200] < 0.3)
    lengths = 1 + np.floor(np.stack([numbers[:200] * 6, numbers[200:] * 4], axis=1)).astype(int).reshape(-1)
    assert np.array_equal(stalls.burst_ready(200, 6, 4, 5), np.repeat(np.tile([True, False], 200), lengths)[:200])
    monkeypatch.undo()
    tracemalloc.start()
    stalls.burst_ready(3_000_000, 60, 60, 1), stalls.random_ready(3_000_000, 0.5, 1)
    assert tracemalloc.get_traced_memory()[1] < 40_000_000
    tracemalloc.stop()


def test_a_long_trace_takes_the_memory_of_one_round() -> None:
    whole = stalls.repeated(lambda cycles: stalls.random_ready(cycles, 0.5, 3), 10**9)
    assert whole.size >= 10**9
    assert whole.strides == (0, 1)
    trace = stalls.RepeatedTrace(whole)
    assert (trace.length, trace.mask) == (whole.size, stalls.LONGEST_ROUND - 1)
    assert np.shares_memory(trace.row, whole)
    assert stalls.repeated(stalls.always, 9).shape == (9,)
    short = stalls.RepeatedTrace(np.array([True, False, True]))
    assert (short.length, short.mask, short.row.tolist()) == (3, -1, [1, 0, 1])


@pytest.mark.parametrize("rounds", [np.ones((2, 3), dtype=bool), np.eye(4, dtype=bool)])
def test_refuses_rounds_that_differ_or_have_another_length(rounds: np.ndarray) -> None:
    with pytest.raises(ValueError, match="rounds of a trace must be equal and a power of two long"):
        stalls.RepeatedTrace(rounds)
