"""A larger budget never gives a slower design, however little of it the FIFOs leave."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.assemble.board_lookup import find_board
from onnx_hw.ir.network import Network
from onnx_hw.ir.target import DesignTarget
from onnx_hw.messages.errors import UserError
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_for_board import schedule_for_board
from onnx_hw.schedule.schedule_network import schedule_network
from schedule.test_search_is_exact import drawn
from support.fixture_paths import EXAMPLES

TARGET = DesignTarget(find_board("up5k"), 24.0)
"""Chip on which FIFOs and cores share logic cells, which run out first."""


def interval(network: Network, budget: Budget) -> float:
    try:
        return schedule_network(network, budget, target=TARGET)[0].interval
    except UserError:
        return float("inf")


@pytest.mark.parametrize("seed", range(0, 12, 2))
def test_drawn_networks(seed: int) -> None:
    """More lanes, and more logic cells, of which there are fewer than the fastest design of some lanes takes."""
    random = np.random.default_rng(seed)
    network, lanes = drawn(random), int(random.integers(4, 13))
    used = schedule_network(network, Budget(mac_lanes=lanes), target=TARGET)[0].with_fifos()
    logic = int(used.logic * random.uniform(0.6, 1))
    budget = Budget(mac_lanes=lanes, bram=used.bram + int(random.integers(3)), logic=logic)
    chains = (
        [replace(budget, mac_lanes=more) for more in range(2, lanes + 4)],
        [replace(budget, logic=logic * percent // 100) for percent in (80, 90, 95, 100, 105, 110, 125)],
    )
    for chain in chains:
        intervals = [interval(network, more) for more in chain]
        assert intervals == sorted(intervals, reverse=True), (chain[0], intervals)


@cache
def digits() -> Network:
    samples = np.load(EXAMPLES / "digits" / "digits_calibration.npz")
    return flow.quantize(flow.read(EXAMPLES / "digits" / "digits_float.onnx"), dict(samples))


def test_lanes_of_digits() -> None:
    """The FIFOs of the fastest design of 10 lanes do not fit on an iCEBreaker; 9 lanes do 3,072 cycles."""
    board = find_board("icebreaker")
    intervals = [
        schedule_for_board(board, digits(), ScheduleRequest(multipliers=lanes))[0].interval for lanes in range(8, 13)
    ]
    assert intervals == sorted(intervals, reverse=True)
    assert intervals[-1] <= 3072
