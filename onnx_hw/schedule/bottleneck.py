"""Say what keeps a design from being faster: how many cycles it must take at least, and why lanes are left over."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.schedule.budget import RESOURCES, Budget, amount
from onnx_hw.schedule.candidates import Offers
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.cut_products import forked
from onnx_hw.schedule.folding_for_interval import fold, resources_of
from onnx_hw.schedule.min_cycles import longest_interval
from onnx_hw.schedule.search_folding import interval_for_lanes


@dataclass(frozen=True)
class Bottleneck:
    """Bound of a design's speed.

    Attributes:
        interval: cycles; no design with the lanes and multipliers of the budget, and with the same products cut in two,
            takes fewer.
        unused: why requested lanes are left over; empty if all are used.
    """

    interval: int
    unused: str = ""

    def above(self, interval: int) -> str:
        """Say by how much a design takes longer, in words that follow others; empty where it does not, or where lanes
        are not what is scarce: then the bound is far away.
        """
        gap = interval / self.interval - 1
        return f", {gap:.1%} above the bound" if 0.0005 <= gap < 1 else ""


def what_bounds(network: Network, design: Design, budget: Budget) -> Bottleneck:
    """Return the bottleneck of a design that was found for a network and a budget."""
    network, cost = forked(network, design.foldings), Cost.of(design.target.board.family)
    longest = longest_interval(network)
    offers = Offers(network, cost, in_logic=budget.in_logic)
    _, one = offers.least_cycles
    interval = interval_for_lanes(offers, budget, 1, one - 1)
    if interval >= one:
        interval = interval_for_lanes(offers, budget, one, longest)
    if budget.mac_lanes is None or design.resources().mac_lanes >= budget.mac_lanes:
        return Bottleneck(interval)
    if design.slowest_loop is not None:
        return Bottleneck(interval, f"{design.slowest_loop} would hardly be faster with more")
    if interval < design.interval:
        return Bottleneck(interval, _what_else(offers, budget, interval, cost))
    needed = _lanes_for(offers, interval - 1)
    return Bottleneck(interval, f"the next faster design needs {needed:,}" if needed else "no core can be faster")


def _what_else(offers: Offers, budget: Budget, interval: int, cost: Cost) -> str:
    """Return what is scarce at an interval at which there are enough lanes."""
    for field, name in RESOURCES.items():
        bound = None if field == "mac_lanes" else getattr(budget, field)
        without: dict[str, Any] = {field: None}
        foldings = None if bound is None else fold(offers, interval, replace(budget, **without))
        if foldings is not None and bound is not None:
            need = amount(resources_of(offers.network, foldings, cost), field)
            if need > bound:
                return f"at {interval:,} cycles a design needs {need:,} {name} of {bound:,}"
    return f"at {interval:,} cycles more than one thing is too little"


def _lanes_for(offers: Offers, interval: int) -> int:
    """Return the lanes that all nodes need at least; 0 if one cannot be so fast."""
    least = [offers.least(node, interval) for node in offers.multiplying]
    if interval < offers.least_cycles[0] or any(one is None for one in least):
        return 0
    return int(sum((one for one in least if one is not None), np.zeros(2, dtype=np.int64))[0])
