"""Cycles of certain events, found window by window: those of the prediction that has all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.ir.design import Design
from onnx_hw.timing import event_windows
from onnx_hw.timing.constraints import Precedences
from onnx_hw.timing.event_windows import EventWindows, event_cycles
from onnx_hw.timing.prediction import Events, predict
from onnx_hw.timing.row_solver import NamedPrecedence
from support.design_bench import random_stall
from support.random_designs import chains, residuals


@pytest.mark.parametrize("window", [1, 7, 1 << 16])
@settings(max_examples=20)
@given(design=st.one_of(chains(5, 300), residuals(5, 300)), seed=st.integers(0, 1 << 16))
def test_cycles_of_some_events(window: int, design: Design, seed: int) -> None:
    stall, draw = random_stall(design, 3, seed), np.random.default_rng(seed)
    whole = predict(design, 4, offers=stall.offers, ready=stall.ready)
    every = {**whole.fires, **{("sink", tensor): cycles for tensor, cycles in whole.sinks.items()}}
    wanted = {name: np.flatnonzero(draw.random(len(cycles)) < 0.2) for name, cycles in every.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_windows, "WINDOW_CYCLES", window)
        found = event_cycles(EventWindows(design, 4, stall.offers, stall.ready), wanted)
        more = {name: np.array([len(cycles)]) for name, cycles in every.items()}  # events that never happen
        none = event_cycles(EventWindows(design, 4, stall.offers, stall.ready), more)
    for name, numbers in wanted.items():
        np.testing.assert_array_equal(found[name], every[name][numbers])
        assert not len(none[name])


@settings(max_examples=20)
@given(design=st.one_of(chains(5, 300), residuals(5, 300)), seed=st.integers(0, 1 << 16), bits=st.integers(0, 6))
def test_a_sink_whose_trace_begins_again(design: Design, seed: int, bits: int) -> None:
    stall, draw = random_stall(design, 3, seed), np.random.default_rng(seed)
    rounds = draw.integers(1, 40)
    ready = {tensor: np.broadcast_to(draw.random(1 << bits) < 0.4, (rounds, 1 << bits)) for tensor in stall.ready}
    whole = predict(design, 4, offers=stall.offers, ready={name: np.ravel(rows) for name, rows in ready.items()})
    wanted = {("sink", tensor): np.arange(len(cycles)) for tensor, cycles in whole.sinks.items()}
    found = event_cycles(EventWindows(design, 4, stall.offers, ready), wanted)
    for tensor, cycles in whole.sinks.items():
        np.testing.assert_array_equal(found["sink", tensor], cycles)


@settings(max_examples=10)
@given(design=chains(5, 300), seed=st.integers(0, 1 << 16))
def test_bounds_that_the_design_does_not_have(design: Design, seed: int) -> None:
    """A sink that takes its tokens a while after they are there: every later one may wait for it."""

    def slower() -> Precedences:
        links = Precedences(design)
        for sink, beats in links.sinks.items():
            late = next(link for link in links.all if link.here == sink)
            links.all.append(NamedPrecedence(sink, late.at, late.there, late.after, "a slow sink", late.delay + 40))
            assert beats == len(late.at)
        return links

    stall = random_stall(design, 3, seed)
    whole = Events(design, links=slower()).solve(4, offers=stall.offers, ready=stall.ready)
    usual = predict(design, 4, offers=stall.offers, ready=stall.ready)
    wanted = {("sink", tensor): np.arange(len(cycles)) for tensor, cycles in whole.sinks.items()}
    found = event_cycles(EventWindows(design, 4, stall.offers, stall.ready, slower()), wanted)
    for tensor, cycles in whole.sinks.items():
        np.testing.assert_array_equal(found["sink", tensor], cycles)
        assert cycles[0] > usual.sinks[tensor][0]
