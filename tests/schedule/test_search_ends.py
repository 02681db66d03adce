"""A search whose FIFOs fit beside no cores ends, after a few designs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.ir.target import DesignTarget
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from onnx_hw.schedule.search_folding import QUICK_SEARCH, Search
from support.fixture_paths import EXAMPLES


@pytest.mark.parametrize("logic", [2100, 2250])
@pytest.mark.parametrize(
    ("search", "few", "many"), [(Search(), 6, 99), (QUICK_SEARCH, 1, 20)], ids=["thorough", "quick"]
)
def test_tighter_and_slower_designs_are_few(search: Search, few: int, many: int, logic: int) -> None:
    """The cores of the slowest design fit here, its FIFOs do not, and tighter cores are tried at each rate."""
    network = flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"))
    target, room, tried = DesignTarget(find_board("icebreaker"), 24), Budget(mac_lanes=8, dsp=8, logic=logic), []

    def counted(*arguments: Any) -> Any:
        tried.append(arguments)
        assert len(tried) <= many, "the same designs are tried over and over"
        return search.fastest(*arguments)

    counting = replace(search, fastest=counted)
    with pytest.raises(UserError, match="too-big"):
        schedule_network(network, room, ScheduleRequest(), target=target, most=room, search=counting)
    assert len(tried) >= few


def test_a_quick_search_finds_designs_that_fit() -> None:
    network = flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"))
    target, room = DesignTarget(find_board("icebreaker"), 24), Budget(mac_lanes=8, dsp=8, logic=3800, bram=28)
    design, _ = schedule_network(network, room, ScheduleRequest(), target=target, most=room, search=QUICK_SEARCH)
    fastest, _ = schedule_network(network, room, ScheduleRequest(), target=target, most=room)
    assert not room.excess(design.with_fifos())
    assert design.interval >= fastest.interval
