"""Choose how wide every node is: the least interval whose circuit fits the budget.

Which foldings there are and what they cost, the operators say; a ``Search`` asks them. Any other one will do as well:
what it finds is verified, and the proof does not care.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ops.folding import Folding
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.candidates import NOTHING, Offers, allowed_by
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.cost_model import cost as own_cost
from onnx_hw.schedule.folding_for_interval import fold, impossible
from onnx_hw.schedule.min_cycles import longest_interval

Foldings = dict[str, Folding]

MAX_MISSES = 3
"""Number of intervals that do not fit until the longest one is asked whether any can."""

MAX_GAIN_BY_DIVISION = Fraction(5, 4)
"""Factor by which a faster design may take less than a slower one, where it divides evenly and that one does not."""

INTERVAL_TOLERANCE = 400
"""Divisor of an interval: one that is longer by this part, a 400th, is as good."""


def least_interval(network: Network) -> tuple[int, NetworkNode]:
    """Return the cycles a frame of the fastest folding there is, whatever it takes, and the node that needs them."""
    offers = Offers(network, own_cost)
    several, one = offers.least_cycles
    least = several + bisect_left(
        range(several, one), True, key=lambda interval: fold(offers, interval, Budget()) is not None
    )
    foldings = fold(offers, least, Budget())
    assert foldings is not None, "every node runs at this interval"
    cycles = {node.name: node.operator.cycles(foldings[node.name]) for node in network.nodes}
    return max(((cycles[node.name], node) for node in network.nodes), key=lambda pair: pair[0])


def choose_folding(network: Network, budget: Budget, from_interval: int = 0, cost: Cost = own_cost) -> Foldings | None:
    """Return the foldings of the least interval, ``from_interval`` or more, that fits; None if nothing fits.

    Products are made of look-up tables, where the budget says that they may, if the design is faster for it.
    """
    foldings = _choose(Offers(network, cost), budget, from_interval)
    if not budget.in_logic:
        return foldings
    longest = _interval(network, foldings) - 1 if foldings else longest_interval(network)
    return _choose(Offers(network, cost, in_logic=True), budget, from_interval, longest) or foldings


def any_folding(network: Network, budget: Budget, from_interval: int = 0, cost: Cost = own_cost) -> Foldings | None:
    """Return foldings that fit, at an interval of ``from_interval`` or more; None if none are seen.

    The first that fits is taken, in little time; ``choose_folding`` may know faster ones.
    """
    for in_logic in (False, True) if budget.in_logic else (False,):
        offers = Offers(network, cost, in_logic=in_logic)
        if not far_too_little(offers, budget):
            _, one = offers.least_cycles
            foldings = _fastest(offers, budget, max(one, from_interval), longest_interval(network), any_will_do=True)
            if foldings is not None:
                return foldings
    return None


def _choose(offers: Offers, budget: Budget, from_interval: int, longest: int | None = None) -> Foldings | None:
    """Return the foldings of an interval no longer than that.

    Several pixels a beat are tried where one a beat fits as fast as it can be: they take more of everything, and there
    are too many of their foldings to refuse them one by one in a short time.
    """
    if far_too_little(offers, budget):
        return None
    _, one = offers.least_cycles
    slowest = longest_interval(offers.network)
    last = slowest if longest is None else min(slowest, longest)
    first = max(one, from_interval)
    foldings = _fastest(offers, budget, first, last)
    if first <= last and (foldings is None or _interval(offers.network, foldings) > one * MAX_GAIN_BY_DIVISION):
        return foldings
    return _fastest(offers, budget, max(1, from_interval), min(one - 1, last)) or foldings


def _interval(network: Network, foldings: Foldings) -> int:
    return max(node.operator.cycles(foldings[node.name]) for node in network.nodes)


def _fastest(offers: Offers, budget: Budget, first: int, last: int, *, any_will_do: bool = False) -> Foldings | None:
    """Return the fastest foldings from ``first`` to ``last`` cycles, or the first that are seen.

    The lanes that all nodes need at least are a falling function of the interval, which steps where that of a node
    does: the first of its steps that the budget allows is a bound, and mostly what is found. Where something else is
    too little there, the interval grows, and what is between is bisected.
    """
    good = interval_for_lanes(offers, budget, first, last)
    fails, stride, tried = good - 1, 1 + good // 64, 0
    if good > last:
        return None

    def fits(interval: int) -> Foldings | None:
        return fold(offers, interval, budget)

    best = fits(good)
    while best is None:
        tried += 1
        if good == last or (tried == MAX_MISSES and hopeless(offers, budget)):
            return None
        fails, good, stride = good, min(good + stride, last), 2 * stride
        if any_will_do and tried == MAX_MISSES:
            good = last
        best = fits(good)
    while good - fails > 1 + good // INTERVAL_TOLERANCE and not any_will_do:
        middle = (fails + good) // 2
        foldings = fits(middle)
        if foldings is None:
            fails = middle
        else:
            good, best = middle, foldings
    return best


def hopeless(offers: Offers, budget: Budget) -> bool:
    """Return whether even the slowest designs take far more than there is: then faster ones do, too."""
    return far_too_little(offers, budget) or impossible(
        offers, longest_interval(offers.network), budget.times(MAX_GAIN_BY_DIVISION)
    )


def far_too_little(offers: Offers, budget: Budget) -> bool:
    """Return whether it is surely more than there is, as far as that is seen without what lies between cores.

    The nodes are added up until that is known, large ones first: some have many foldings. Otherwise as
    ``far_too_much``, which lists them all.
    """
    longest, allowed, total = longest_interval(offers.network), _allowed_with_luck(budget), NOTHING
    products = offers.largest_products(allowed)
    for node in [*products, *(node for node in offers.network.nodes if not node.operator.macs)]:
        least = offers.least_used(node, longest)
        total = total if least is None else total + least
        if (total > allowed).any():
            return True
    return False


def far_too_much(offers: Offers, budget: Budget) -> dict[str, np.ndarray] | None:
    """Return what some nodes take at least, (resources,) int64 by node, if it is surely more than there is; else None.

    Nodes with products are asked first. In large networks their weights alone mostly are too much, and the arithmetic
    of the others, which takes long to choose, need not be known.
    """
    longest, allowed = longest_interval(offers.network), _allowed_with_luck(budget)
    for products_only in (True, False):
        nodes = [node for node in offers.network.nodes if node.operator.macs or not products_only]
        asked = {node.name: offers.least_used(node, longest) for node in nodes}
        least = {name: used for name, used in asked.items() if used is not None}
        if (sum(least.values(), NOTHING) > allowed).any():
            return least
    return None


def _allowed_with_luck(budget: Budget) -> np.ndarray:
    """Return what a slow design may take, (resources,) float64, so that a faster one might take no more than a budget.

    No pins are gained.
    """
    return allowed_by(replace(budget.times(MAX_GAIN_BY_DIVISION), pins=budget.pins))


def interval_for_lanes(offers: Offers, budget: Budget, first: int, last: int) -> int:
    """Return the least interval from ``first`` on at which there are the lanes and multipliers that each node needs by
    itself.

    No design within the budget takes fewer cycles. Beyond ``last`` if no interval up to there will do.
    """
    allowed = allowed_by(budget)[:2]
    nodes = sorted(offers.multiplying, key=lambda node: -node.operator.macs)

    def enough(interval: int) -> bool:
        total = np.zeros(2)
        for node in nodes:
            least = offers.least(node, interval)
            if least is None:
                return False
            total += least
            if (total > allowed).any():
                return False
        return True

    first = max(first, offers.least_cycles[0])
    if budget.mac_lanes:
        macs = sum(node.operator.macs for node in nodes)
        first = max(first, -(-macs // budget.mac_lanes))
    return first + bisect_left(range(first, last + 1), True, key=enough)


def cheapest_folding(
    network: Network, budget: Budget, interval: int, cost: Cost = own_cost, *, steps: int = 8
) -> Foldings | None:
    """Return cheap foldings that take at most ``interval`` cycles; None if none were found.

    A slower design is a cheaper one but for luck of rounding, which is tried down to half the interval.

    Args:
        steps: number of shorter intervals that are tried, at most 8.
    """
    for in_logic in (False, True) if budget.in_logic else (False,):
        offers = Offers(network, cost, in_logic=in_logic)
        for sixteenths in range(16, 7, -8 // steps):
            foldings = fold(offers, interval * sixteenths // 16, budget)
            if foldings is not None:
                return foldings
    return None


@dataclass(frozen=True)
class Search:
    """Searches by which foldings are found.

    Attributes:
        fastest: finds the shortest interval that fits a budget, not below a number of cycles; None if nothing fits.
        cheapest: finds the cheapest that takes at most a number of cycles; None if nothing fits.
        for_loops: whether the foldings of loops are then chosen for their latency. That takes time, and decides only
            how fast a design is, not whether there is one.
        least_fifos: whether FIFOs are as shallow as the interval allows. Otherwise a design whose FIFOs are deeper is
            good enough where it fits, which is known sooner.
        tighter_rooms: number of times that nodes get less room, so that enough is left for FIFOs.
        thorough: whether a design is tried in every way that may make it fit, with products of look-up tables, too.
            Otherwise few are tried.
    """

    fastest: Callable[[Network, Budget, int, Cost], Foldings | None] = choose_folding
    cheapest: Callable[[Network, Budget, int, Cost], Foldings | None] = cheapest_folding
    for_loops: bool = True
    least_fifos: bool = True
    tighter_rooms: int = 3
    thorough: bool = True

    def rooms(self, *budgets: Budget) -> list[Budget]:
        """Return different budgets to try one after the other, those with products of look-up tables last."""
        in_logic = (replace(budget, in_logic=True) for budget in budgets if self.thorough)
        return list(dict.fromkeys((*budgets, *in_logic)))


QUICK_SEARCH = Search(
    any_folding, partial(cheapest_folding, steps=2), for_loops=False, least_fifos=False, tighter_rooms=1, thorough=False
)
"""Search that knows soon whether a design fits, except where it barely does."""
