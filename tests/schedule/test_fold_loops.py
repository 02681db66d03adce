"""Foldings for loops: faster round than without a look at them, within the budget; rates are kept or refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.exact.integers import Int
from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.requantize import Monotone
from onnx_hw.ops.tensor import Tensor
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule import schedule_network as schedule_network_module
from onnx_hw.schedule.bottleneck import what_bounds
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.fold_loops import fold_loops
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.loop_pace import cycles_of_loops
from onnx_hw.schedule.schedule_for_board import refuse_what_does_not_fit
from onnx_hw.schedule.schedule_network import schedule_network
from onnx_hw.schedule.search_folding import choose_folding
from support.design_bench import assert_proven, prove
from support.random_loops import gated_cell, summed_cell
from support.recurrent_models import RecurrentNode
from support.targets import ecp5_at

LANES, STEPS, INPUTS, UNITS = 12, 6, 3, 8


@cache
def network() -> Network:
    weights = np.random.default_rng(0).integers(-3, 4, (UNITS, INPUTS + UNITS))
    return summed_cell(Tensor((STEPS, 1, INPUTS), Int(4)), np.zeros((1, UNITS), np.int64), weights, 3)


def scheduled(fps: float | None = None, lanes: int = LANES) -> Design:
    return schedule_network(network(), Budget(mac_lanes=lanes), ScheduleRequest(fps=fps), target=ecp5_at(50))[0]


def without_a_look_at_loops() -> int:
    """Cycles a frame of the foldings of the least interval of single cores."""
    forked = insert_forks(network())
    foldings = choose_folding(forked, Budget(mac_lanes=LANES))
    assert foldings is not None
    design = Design(*insert_gearboxes(forked, foldings))
    return cycles_of_loops(design, design.schedules())


def test_the_loop_is_faster_than_without_a_look_at_it() -> None:
    design = scheduled()
    assert design.resources().mac_lanes <= LANES
    assert design.slowest_loop is not None
    assert design.interval < without_a_look_at_loops()
    products = UNITS * UNITS // LANES
    assert design.slowest_loop.step_cycles <= products + 80
    assert_proven(prove(design, frames=2, stalls=False))


def test_more_lanes_than_help_are_left_over_for_a_reason() -> None:
    many = scheduled(lanes=1000)
    assert many.interval <= scheduled().interval
    bound = what_bounds(network(), many, Budget(mac_lanes=1000))
    assert bound.unused == f"{many.slowest_loop} would hardly be faster with more"


def test_the_cheapest_design_of_a_rate_keeps_it() -> None:
    interval = 2 * scheduled().interval
    slow = scheduled(fps=50e6 / interval)
    assert scheduled().interval < slow.interval <= interval
    assert slow.with_fifos().lut < scheduled().with_fifos().lut


@pytest.mark.parametrize(("fps", "asked"), [(None, 0), (1.0, 1)])
def test_whether_something_fits_is_answered_without_a_look_at_loops(
    fps: float | None, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Mock(wraps=fold_loops)
    monkeypatch.setattr(schedule_network_module, "fold_loops", spy)
    refuse_what_does_not_fit(find_board("ecp5"), network(), ScheduleRequest(fps=fps))
    assert spy.call_count == asked
    with pytest.raises(UserError, match="not 1000000"):
        refuse_what_does_not_fit(find_board("ecp5"), network(), ScheduleRequest(fps=1e6))


def test_a_rate_that_no_loop_keeps_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"50 MHz on this board, not 1000000: the loop of .* cycles a step × 6 steps takes"
    ):
        scheduled(fps=1e6)


def test_a_product_beside_the_loop_gets_lanes_of_the_one_on_it() -> None:
    weights = np.random.default_rng(0).integers(-3, 4, (8, 32))
    cell = summed_cell(Tensor((6, 1, 24), Int(4)), np.zeros((1, 8), np.int64), weights, 3)
    design, _ = schedule_network(cell, Budget(mac_lanes=12), target=ecp5_at(50))
    assert design.slowest_loop is not None, "else the product of the data sets the pace, and lanes are left over"
    assert design.resources().mac_lanes == 12
    assert_proven(prove(design, frames=2, stalls=True))


def test_the_products_that_a_step_waits_for_get_most_lanes(tmp_path: Path) -> None:
    """The output gate of an LSTM is not needed before the next state is known."""
    path = RecurrentNode("LSTM", 4, 6, 8).write(tmp_path)
    frames = {"x": np.random.default_rng(0).normal(0, 1, (8, 4, 1, 6)).astype(np.float32)}
    design, _ = schedule_network(flow.quantize(flow.read(path), frames), Budget(mac_lanes=16), target=ecp5_at(50))
    assert design.slowest_loop is not None and design.slowest_loop.step_cycles <= 122
    on_loop = [node for node in design.network.nodes if node.name.startswith("cell/state")]
    lanes = {node.name.split("_")[1].split("[")[0]: node.operator.lanes(design.folding(node)) for node in on_loop}
    assert lanes["o"] < min(lanes[gate] for gate in "ig")


def test_products_in_series_get_better_shapes_before_lanes(tmp_path: Path) -> None:
    """A product whose last results need few cycles behind the last element of the state; 195 cycles otherwise."""
    path = RecurrentNode("GRU", 4, 10, 24).write(tmp_path)
    frames = {"x": np.random.default_rng(0).normal(0, 1, (8, 4, 1, 10)).astype(np.float32)}
    design, _ = schedule_network(flow.quantize(flow.read(path), frames), Budget(mac_lanes=32), target=ecp5_at(50))
    assert design.slowest_loop is not None and design.slowest_loop.step_cycles <= 182
    assert_proven(prove(design, frames=3, stalls=True))


def test_a_cell_of_several_products_is_folded() -> None:
    weights = np.random.default_rng(1).integers(-3, 4, (4, 6))
    cell = gated_cell(Tensor((4, 1, 2), Int(4)), np.ones((1, 4), np.int64), weights, 3)
    design, foldings = schedule_network(cell, Budget(mac_lanes=16), target=ecp5_at(50))
    again, _ = schedule_network(cell, Budget(mac_lanes=16), ScheduleRequest(foldings=foldings), target=ecp5_at(50))
    assert again.interval == design.interval and again.loops == design.loops


def test_functions_on_a_loop_are_tables_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of thresholds takes three cycles for each bit of a result, in every step."""
    node = RecurrentNode("GRU", 4, 2, 4)
    frames = {"x": np.random.default_rng(0).normal(0, 1, (8, 4, 1, 2)).astype(np.float32)}
    cell = flow.quantize(flow.read(node.write(tmp_path)), frames)

    def schedule(**budget: int) -> Design:
        return schedule_network(cell, Budget(mac_lanes=24, **budget), target=ecp5_at(50))[0]

    with monkeypatch.context() as patch:
        patch.setattr(Monotone, "quicker", lambda operator, folding: iter(()))
        plain = schedule()
    quick, cramped = schedule(), schedule(bram=plain.resources().bram)
    steps = [design.slowest_loop.step_cycles for design in (quick, cramped, plain) if design.slowest_loop is not None]
    assert steps[0] < steps[1] <= steps[2] and steps[0] <= steps[2] - 30
    assert quick.resources().bram > plain.resources().bram >= cramped.resources().bram
    chosen = [node for node in quick.network.nodes if getattr(quick.folding(node), "blocks", 0)]
    assert [repr(node.operator) for node in chosen] == ["Staircase to -128..127"], "the Tanh; other tables are cheaper"
    assert_proven(prove(quick, frames=2, stalls=True))
