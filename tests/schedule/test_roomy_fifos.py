"""FIFOs that fit a budget: they keep the interval in the circuit, and are never shallower than each by itself needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.schedule import roomy_fifos
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.roomy_fifos import size_fifos_within
from onnx_hw.schedule.schedule_network import Designs, has_slow_design, schedule_network
from onnx_hw.schedule.search_folding import Search
from onnx_hw.schedule.size_fifos import affordable, kept_interval, size_fifos
from schedule.test_size_fifos import convolutions, small_network
from support.design_bench import Bench, assert_proven, no_stall
from support.random_designs import chains, residuals
from support.targets import ecp5_at

DESIGNS = st.one_of(chains(6, 400), residuals(6, 400))


@settings(max_examples=40)
@given(DESIGNS)
def test_they_keep_the_interval(drawn: Design) -> None:
    bare = replace(drawn, fifos={})
    roomy, least = size_fifos_within(bare, Budget()), size_fifos(bare)
    assert roomy is not None
    assert kept_interval(roomy) == roomy.interval == least.interval
    for tensor, size in roomy.fifos.items():
        depth = affordable(least.fifos[tensor].rate_depth)
        assert size.depth >= min(depth, least.fifos[tensor].rate_depth)


@settings(max_examples=40)
@given(DESIGNS, st.integers(0, 100))
def test_they_shrink_as_far_as_a_budget_asks_for(drawn: Design, percent: int) -> None:
    """What fits keeps the interval; what surely cannot fit, the least FIFOs do not, either."""
    bare = replace(drawn, fifos={})
    roomy, least = size_fifos_within(bare, Budget()), size_fifos(bare)
    assert roomy is not None
    most, few = roomy.with_fifos().lut, least.with_fifos().lut
    room = Budget(lut=few + (most - few) * percent // 100)
    within = size_fifos_within(bare, room)
    assert within is not None
    if not room.excess(within.with_fifos()):
        assert kept_interval(within) == within.interval
    assert not room.excess(least.with_fifos())
    nothing = size_fifos_within(bare, Budget(lut=0))
    assert nothing is not None
    assert Budget(lut=0).excess(nothing.with_fifos())


@settings(max_examples=3)
@given(residuals(5, 200))
def test_the_circuit_keeps_the_interval(drawn: Design) -> None:
    roomy = size_fifos_within(replace(drawn, fifos={}), Budget())
    assert roomy is not None
    run = Bench(roomy).prove(no_stall(roomy, 8), frames=8)
    assert_proven(run)
    assert run.interval_cycles is not None
    assert run.interval_cycles <= roomy.interval


def test_a_design_with_too_many_events_is_left_to_the_exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Budget(mac_lanes=30)
    exact, foldings = schedule_network(convolutions(), room, target=ecp5_at(80))
    quick, same = schedule_network(convolutions(), room, target=ecp5_at(80), search=Search(least_fifos=False))
    assert same == foldings
    assert quick.interval == exact.interval
    monkeypatch.setattr(roomy_fifos, "MAX_EVENTS", 0)
    assert size_fifos_within(replace(exact, fifos={}), room) is None
    other, _ = schedule_network(convolutions(), room, target=ecp5_at(80), search=Search(least_fifos=False))
    assert other.fifos == exact.fifos


@pytest.mark.parametrize("network", [small_network(), convolutions()], ids=["pools", "convolutions"])
@pytest.mark.parametrize("share", [8, 10, 11, 12, 14, 20])
def test_a_check_finds_a_design_just_where_the_whole_search_does(network: Network, share: int) -> None:
    """Budgets around the look-up tables of the cheapest design, in tenths."""
    slowest = Designs(network).slowest(Budget(), ecp5_at(80))
    assert slowest is not None
    room = Budget(lut=slowest[0].with_fifos().lut * share // 10)

    def found(search: Search) -> bool:
        try:
            schedule_network(network, room, target=ecp5_at(80), search=search)
        except UserError:
            return False
        return True

    exact = found(Search())
    assert found(Search(least_fifos=False)) == exact
    if has_slow_design(network, room, target=ecp5_at(80), search=Search(least_fifos=False)):
        assert exact
    assert exact == (share >= 10)
