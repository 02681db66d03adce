"""Products in two cuts: where lanes are scarce and those of one core do not divide the work, two cores share it.

Which products are cut, and where, stands in the names of the cores: ``conv1[:36]`` makes the first 36 channels of what
``conv1`` makes, ``conv1[36:]`` the others. So foldings by name say it, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.verify_network import verify_network
from onnx_hw.schedule.budget import Budget, weight
from onnx_hw.schedule.candidates import PRODUCTS, Offers, allowed_by
from onnx_hw.schedule.insert_forks import insert_forks
from onnx_hw.schedule.search_folding import interval_for_lanes

LEAST_GAIN = Fraction(1, 64)
"""Part of the interval that cuts must save: they cost look-up tables."""

MAX_PRICE = 4
"""Factor by which the part of the chip that a design takes may grow more than its rate does. Where lanes are cheap, as
those of binary products are, a second core costs more than it brings."""

TOO_SLOW = np.full(PRODUCTS, np.iinfo(np.int64).max // 2)
"""Lanes and multipliers of a node that cannot keep up, more than all there are."""

FIRST_PART = re.compile(r"(.+)\[:(\d{1,9})\]", re.DOTALL)


def forked(network: Network, names: Iterable[str] = ()) -> Network:
    """Return the network of a design before its gearboxes: products cut as the names of its cores say, and forks."""
    return insert_forks(cut_products(network, cuts_in(network, names)))


def cuts_in(network: Network, names: Iterable[str]) -> dict[str, int]:
    """Return the cuts that the names of cores say: by node, the channels of the first part."""
    nodes = {node.name: node for node in network.nodes}
    matches = (FIRST_PART.fullmatch(name) for name in names if name not in nodes)
    cuts = {match[1]: int(match[2]) for match in matches if match}
    return {name: first for name, first in cuts.items() if name in nodes and nodes[name].operator.cut(first)}


def cut_products(network: Network, cuts: Mapping[str, int]) -> Network:
    """Cut some nodes in two, and join their results under the old name; see ``Operator.cut``."""
    if not cuts:
        return network
    nodes: list[NetworkNode] = []
    for node in network.nodes:
        operators = node.operator.cut(cuts[node.name]) if node.name in cuts else None
        if operators is None:
            nodes.append(node)
            continue
        (tensor,), ends = node.outputs, (f"[:{cuts[node.name]}]", f"[{cuts[node.name]}:]")
        for operator, end in zip(operators, ends, strict=False):
            nodes.append(replace(node, name=node.name + end, operator=operator, outputs=(tensor + end,)))
        made = tuple(tensor + end for end in ends)
        nodes.append(NetworkNode(f"concat {tensor}", operators[-1], made, node.outputs))
    return verify_network(replace(network, nodes=tuple(nodes)), "cut_products")


def longest_with_cuts(offers: Offers, budget: Budget, wanted: int | None, whole: int | None) -> int | None:
    """Return the cycles that a design with cuts may take; None if there is no use for one: on a loop, where what is
    wanted is there without, or where it is not lanes that are scarce.

    Args:
        wanted: cycles that a design may take; None if the fastest one is searched for.
        whole: cycles of the design without cuts; None without such a design.
    """
    if offers.network.loops or (wanted is None) == (whole is None):
        return None
    if whole is None:
        return wanted
    first = max(1, offers.least_cycles[1])
    bound = interval_for_lanes(offers, budget, first, whole) if first <= whole else whole
    return floor(whole * (1 - LEAST_GAIN)) if whole <= bound * (1 + LEAST_GAIN) else None


def worth_it(cut: Design, whole: Design | None) -> bool:
    """Return whether a design with cuts should be taken, rather than one without, if there is one."""
    if whole is None:
        return True
    faster, larger = whole.interval / cut.interval, weight(cut.with_fifos()) / weight(whole.with_fifos())
    return faster >= 1 / (1 - LEAST_GAIN) and larger - 1 <= MAX_PRICE * (faster - 1)


def cuts_for(offers: Offers, budget: Budget, longest: int) -> list[dict[str, int]]:
    """Return the cuts with which a network is fastest, as far as lanes and multipliers decide it, and the fewer ones
    with which it takes ``longest`` cycles; none if it takes more.
    """
    needs = _Needs(offers, budget)
    first = max(1, offers.least_cycles[1])
    interval = first + bisect_left(range(first, longest + 1), True, key=needs.enough)
    choices = [needs.cuts(cycles) for cycles in (interval, longest)] if interval <= longest else []
    return [cuts for k, cuts in enumerate(choices) if cuts and cuts not in choices[:k]]


class _Needs:
    """Lanes and multipliers that nodes need at an interval, in one core or in two."""

    def __init__(self, offers: Offers, budget: Budget) -> None:
        self._offers = offers
        self._allowed = allowed_by(budget)[:PRODUCTS]
        self._nodes = sorted(offers.multiplying, key=lambda node: -node.operator.macs)

    def enough(self, interval: int) -> bool:
        """Return whether there is enough for all nodes, some of them cut."""
        pairs = (self._of(node, interval) for node in self._nodes)
        total = np.zeros(PRODUCTS)
        for whole, cut, _ in pairs:
            total += np.minimum(whole, cut)
            if (total > self._allowed).any():
                return False
        return True

    def cuts(self, interval: int) -> dict[str, int]:
        """Return the cuts that save most, until there is enough."""
        of_nodes = {node.name: self._of(node, interval) for node in self._nodes}
        total = sum((whole for whole, _, _ in of_nodes.values()), np.zeros(PRODUCTS))
        cuts: dict[str, int] = {}
        for name, (whole, cut, first) in sorted(of_nodes.items(), key=lambda item: item[1][1][0] - item[1][0][0]):
            if (total <= self._allowed).all() or not cut[0] < whole[0]:
                break
            cuts[name] = first
            total += cut - whole
        return cuts

    def _of(self, node: NetworkNode, interval: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the lanes and multipliers of a node in one core, those of two, and the channels of the first."""
        whole, cut = self._offers.least(node, interval), node.operator.best_cut(interval)
        if whole is None:
            return TOO_SLOW, TOO_SLOW, 0
        if cut is None:
            return whole, whole, 0
        lanes, first = cut
        return whole, np.array([lanes, lanes * whole[1] / whole[0]]), first
