"""Lanes that are left over are told, with a reason that is true; and a bound that no design goes below."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from onnx_hw.commands.build import build
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.runtime.stage import Stage
from onnx_hw.schedule.bottleneck import Bottleneck, what_bounds
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from schedule.test_search_folding import convolutions
from support.fixture_paths import EXAMPLES
from support.targets import ecp5_at

NETWORK = convolutions(8, (3, 8, 8, 4))


def bound_of(budget: Budget) -> tuple[int, int, Bottleneck]:
    """Lanes, interval, and what is said of it."""
    design, _ = schedule_network(NETWORK, budget, target=ecp5_at(100))
    return design.resources().mac_lanes, design.interval, what_bounds(NETWORK, design, budget)


@pytest.mark.parametrize("lanes", [5, 9, 17, 23, 40])
def test_the_next_design_needs_what_is_said(lanes: int) -> None:
    used, interval, bound = bound_of(Budget(mac_lanes=lanes))
    assert bound.interval <= interval
    if used == lanes:
        assert bound.unused == ""
        return
    (needed,) = re.fullmatch(r"the next faster design needs (\d+)", bound.unused).groups()  # type: ignore[union-attr]
    assert int(needed) > lanes
    assert bound_of(Budget(mac_lanes=int(needed)))[1] < interval
    assert bound_of(Budget(mac_lanes=int(needed) - 1))[1] == interval


def test_what_else_there_is_too_little_of_is_said() -> None:
    free, _ = schedule_network(NETWORK, Budget(mac_lanes=36), target=ecp5_at(100))
    need = free.resources()
    most = replace(Budget(mac_lanes=36), lut=need.lut * 2 // 3)
    used, interval, bound = bound_of(most)
    assert used < 36 and interval > free.interval >= bound.interval
    told = re.fullmatch(r"at ([\d,]+) cycles a design needs ([\d,]+) LUTs of ([\d,]+)", bound.unused)
    assert told is not None
    cycles, lut, allowed = (int(number.replace(",", "")) for number in told.groups())
    assert cycles == bound.interval and lut > allowed == most.lut


def test_nothing_is_said_where_no_number_was_asked_for() -> None:
    assert bound_of(Budget(dsp=30))[2].unused == ""


def test_more_lanes_than_a_model_can_use() -> None:
    used, interval, bound = bound_of(Budget(mac_lanes=1_000_000))
    assert used < 1_000_000 and bound == Bottleneck(interval, "no core can be faster")


def test_the_report_says_it(tmp_path: Path) -> None:
    model = EXAMPLES / "digits" / "digits.onnx"
    options = BuildOptions(
        model=model, out=tmp_path, stop_after=Stage.SCHEDULE, scheduling=ScheduleRequest(multipliers=33)
    )
    build(options, progress := Silent())
    assert "busy); " in progress.stages[-1].fact
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["search"]["lanes_allowed"] == 33 and told["search"]["interval_bound_cycles"] == 768
    assert told["design"]["lanes"] < 33
    assert re.fullmatch(r"the next faster design needs \d+", told["search"]["lanes_unused"])


def test_the_terminal_says_how_far_it_is_from_the_bound(tmp_path: Path) -> None:
    model = EXAMPLES / "digits" / "digits_float.onnx"
    twelve = ScheduleRequest(multipliers=12)
    options = BuildOptions(model=model, out=tmp_path, board="icebreaker", stop_after=Stage.SCHEDULE, scheduling=twelve)
    build(options, progress := Silent())
    bound = json.loads((tmp_path / "report.json").read_text())["search"]["interval_bound_cycles"]
    fact = progress.stages[-1].fact
    ((cycles, gap),) = re.findall(r"([\d,]+) cycles a frame .*busy, ([\d.]+)% above the bound\)", fact)
    assert abs(int(cycles.replace(",", "")) / bound - 1 - float(gap) / 100) < 0.001 < float(gap)


@pytest.mark.parametrize(("interval", "told"), [(1000, ""), (1001, ", 0.1% above the bound"), (2001, "")])
def test_what_says_nothing_is_not_said(interval: int, told: str) -> None:
    assert Bottleneck(1000).above(interval) == told
