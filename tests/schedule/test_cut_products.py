"""Products in two cuts: the same numbers, the lanes that all foldings of both parts say, and faster designs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.exact.integers import Int
from onnx_hw.ir.golden import streamed_in, trace
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.tensor import Tensor
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.bottleneck import what_bounds
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.cut_products import MAX_PRICE, cut_products, cuts_in, forked, worth_it
from onnx_hw.schedule.folding_file import read_foldings, to_text
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.schedule_network import schedule_network
from onnx_hw.schedule.search_folding import choose_folding
from support.hand_built_designs import Sketch
from support.legal_foldings import legal
from support.targets import ecp5_at

BUDGET = Budget(mac_lanes=10)


def chain(*channels: int, pixels: int = 3, seed: int = 0) -> Network:
    """Products one after the other, over a row of pixels."""
    random, sketch = np.random.default_rng(seed), Sketch()
    name = sketch.input("x", Tensor((1, pixels, channels[0]), Int(8)))
    for k, outputs in enumerate(channels[1:]):
        weights = random.integers(-128, 128, (outputs, sketch.tensors[name].channels))
        (name,) = sketch.add(f"product{k}", MatMul(sketch.tensors[name], weights), [name], (1, 1), 1)
    return sketch.design().network


NETWORK = chain(16, 16, 6)
"""Network whose design of 10 lanes takes 144 cycles with whole products, and 120 with a product in two cuts."""


@st.composite
def products(draw: st.DrawFn) -> MatMul:
    """Draw products, also with results and operands of one sign."""
    rows, columns, inputs = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 7))
    operand = Tensor((rows, columns, inputs), Int(draw(st.integers(1, 8)), draw(st.booleans())))
    least, most = draw(st.sampled_from([(-8, 7), (0, 7), (-8, 0), (-1, 1)]))
    outputs = draw(st.integers(1, 7))
    numbers = draw(st.lists(st.integers(least, most), min_size=outputs * inputs, max_size=outputs * inputs))
    return MatMul(operand, np.array(numbers).reshape(outputs, inputs))


@given(products(), st.data())
def test_both_parts_make_what_the_whole_makes(product: MatMul, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, product.results()[0].channels))
    operators = product.cut(first)
    if operators is None:
        low, _ = product.results()[0].range
        assert first in (0, product.results()[0].channels) or low >= 0  # the type of sums is signed even then
        return
    one, other, joined = operators
    low, high = product.operand.range
    frames = np.random.default_rng(first).integers(low, high + 1, (2, *product.operand.shape))
    parts = [part.golden(frames)[0] for part in (one, other)]
    assert np.array_equal(joined.golden(*parts)[0], product.golden(frames)[0])
    assert joined.results() == product.results() and one.macs + other.macs == product.macs


@given(products(), st.integers(1, 200))
def test_the_best_cut_is_that_of_all_foldings(product: MatMul, interval: int) -> None:
    def lanes(part: MatMul) -> float:
        fits = (folding for folding in legal(part) if part.cycles(folding) <= interval)
        return min(map(part.lanes, fits), default=np.inf)

    def joins(first: int) -> bool:
        """Whether a core joins the parts in time, with the fewest lanes that keep up with whole beats alone."""
        result = product.results()[0]
        wide = -(-result.size // interval)
        beats = first // wide + -(-(result.channels - first) // wide)
        return first % wide == 0 and beats * result.pixels <= interval

    outputs = product.results()[0].channels
    rows = product.constants
    cuts = {k: sum(lanes(replace(product, weights=part)) for part in (rows[:k], rows[k:])) for k in range(1, outputs)}
    least = min((need for k, need in cuts.items() if joins(k)), default=np.inf)
    best = product.best_cut(interval)
    if best is None:
        assert least == np.inf
    else:
        assert best[0] == least == cuts[best[1]] and joins(best[1])


def test_a_cut_design_is_faster_and_its_circuit_is_right(tmp_path: Path) -> None:
    """Its foldings give it again, and so does the file of them."""
    design, foldings = schedule_network(NETWORK, BUDGET, target=ecp5_at(100))
    whole = choose_folding(insert_forks(NETWORK), BUDGET)
    assert whole is not None
    assert any("[:" in name for name in foldings) and design.resources().mac_lanes <= 10
    slowest = max(node.operator.cycles(whole[node.name]) for node in NETWORK.nodes)
    assert design.interval < slowest * 63 / 64
    proof = flow.simulate(design, folder=tmp_path)
    assert proof.agrees
    again, _ = schedule_network(NETWORK, BUDGET, ScheduleRequest(foldings=foldings), target=ecp5_at(100))
    assert repr(again) == repr(design)
    (tmp_path / "folding.toml").write_text(to_text(design, foldings), encoding="utf-8")
    assert read_foldings(tmp_path / "folding.toml", NETWORK) == (foldings, {})
    bound = what_bounds(NETWORK, design, BUDGET)
    assert bound.interval <= design.interval


def test_a_rate_that_only_cuts_reach_is_reached() -> None:
    fastest, _ = schedule_network(NETWORK, BUDGET, target=ecp5_at(100))
    fps = 100_000_000 // fastest.interval
    design, _ = schedule_network(NETWORK, BUDGET, ScheduleRequest(fps=fps), target=ecp5_at(100))
    assert design.interval <= fastest.interval and design.resources().mac_lanes <= 10
    slower, foldings = schedule_network(NETWORK, BUDGET, ScheduleRequest(fps=fps / 2), target=ecp5_at(100))
    assert slower.interval <= 2 * fastest.interval and not any("[:" in name for name in foldings)
    with pytest.raises(UserError, match="MAC lanes of 10"):
        schedule_network(NETWORK, BUDGET, ScheduleRequest(fps=2 * fps), target=ecp5_at(100))
    with pytest.raises(UserError):  # less than a cycle for each frame
        schedule_network(NETWORK, BUDGET, ScheduleRequest(fps=1e9), target=ecp5_at(100))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=4), st.integers(1, 3), st.integers(3, 40))
def test_no_design_is_slower_or_wider_than_without_cuts(channels: list[int], pixels: int, lanes: int) -> None:
    network, budget = chain(*channels, pixels=pixels), Budget(mac_lanes=lanes)
    whole = choose_folding(insert_forks(network), budget)
    if whole is None:
        return
    slowest = max(node.operator.cycles(whole[node.name]) for node in network.nodes)
    design, foldings = schedule_network(network, budget, target=ecp5_at(100))
    assert design.interval <= slowest and design.resources().mac_lanes <= lanes
    if any("[:" in name for name in foldings):
        assert design.interval <= slowest * 63 / 64


def test_what_costs_more_than_it_brings_is_not_taken() -> None:
    cut, _ = schedule_network(NETWORK, BUDGET, target=ecp5_at(100))
    assert worth_it(cut, None) and not worth_it(cut, cut)
    narrow, _ = schedule_network(NETWORK, Budget(mac_lanes=2), target=ecp5_at(100))
    faster, larger = narrow.interval / cut.interval, cut.with_fifos().lut / narrow.with_fifos().lut
    assert larger - 1 < MAX_PRICE * (faster - 1)
    assert worth_it(cut, narrow) and not worth_it(narrow, cut)


def test_names_that_look_like_a_cut() -> None:
    """A node of the model may have such a name; and a file may name a cut where there can be none."""
    names = {"product0": "a[:2]", "product1": "a"}
    named = replace(NETWORK, nodes=tuple(replace(node, name=names[node.name]) for node in NETWORK.nodes))
    assert cuts_in(named, ("a[:2]", "a", "b[:3]", "a[:x]")) == {}
    assert cuts_in(named, ("a[:3]", "a[3:]")) == {"a": 3}
    assert cuts_in(named, ("a[:6]", "a[6:]")) == {} == cuts_in(named, ("a[:0]",))
    assert cuts_in(named, ("a[:2][:3]",)) == {"a[:2]": 3}
    whole, cut = (trace(network, streamed_in(network, None)) for network in (named, forked(named, ("a[:3]",))))
    assert np.array_equal(whole["product1.o"], cut["product1.o"])
    names_now = [node.name for node in cut_products(named, {"a": 3}).nodes]
    assert names_now == ["a[:2]", "a[:3]", "a[3:]", "concat product1.o"]
