"""Foldings for networks with loops: as fast round the loop as the budget allows, and no faster beside it.

A core that keeps the interval with one lane may be far too slow on a loop, whose latency counts once a step. So the
cores on loops are asked for foldings of fewer cycles than the others, from very few on, and the firing law says how
fast the loops then go round. Products on them are tried one by one afterwards, since they share the lanes unevenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.target import DesignTarget
from onnx_hw.ops.folding import Folding
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.candidates import Offers, allowed_by
from onnx_hw.schedule.converters import as_array
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.folding_for_interval import fold, resources_of
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.loop_pace import cycles_of_loops

Foldings = dict[str, Folding]

REFINED = 2
"""Number of the best cycles a step for which cores without products are also asked for fewer."""

MAX_TRIALS = 60
"""Number of foldings of single cores that are tried."""


def fold_loops(
    network: Network,
    foldings: Foldings,
    budget: Budget,
    target: DesignTarget,
    cost: Cost,
    *,
    interval: int | None = None,
    slower: int = 0,
) -> Foldings | None:
    """Return foldings whose loops go round faster than with those given.

    Args:
        foldings: those that were found as if there were no loops.
        interval: cycles a frame that are enough: the cheapest of the foldings that keep it; None for the fastest ones.
        slower: cycles a frame that cores beside the loops may take at least.

    Returns:
        the foldings; None if none keeps the interval.
    """
    search = _Loops(network, budget, target, cost, interval)
    search.consider(foldings)
    alike: dict[int, int] = {}  # cycles a step that all cores on loops may take -> cycles a frame
    for cycles in search.step_cycles():
        if not search.enough:
            alike[cycles] = search.ask(cycles, cycles, slower)
    for cycles in sorted(alike, key=lambda cycles: alike[cycles])[:REFINED]:
        for others in (1 << k for k in range(cycles.bit_length())):
            if others < cycles and not search.enough:
                search.ask(cycles, others, slower)
    search.refine()
    search.quicken()
    return search.chosen if interval is None or search.best[0] <= interval else None


class _Loops:
    """Best foldings so far.

    Attributes:
        steps: by node on a loop, the operations of its slowest engine for one beat a step.
        best: cycles a frame of the chosen foldings, and what they cost in LUTs.
        chosen: the foldings.
    """

    def __init__(
        self, network: Network, budget: Budget, target: DesignTarget, cost: Cost, interval: int | None
    ) -> None:
        self.network, self.target, self.cost, self.interval = network, target, cost, interval
        self.budget, self.allowed = budget, allowed_by(budget)
        self.on_loops = [node for loop in network.loops for node in loop]
        self.steps = {
            node.name: 2 * rows if node.operator.keeps else rows + bool(node.operator.feedback)
            for node in self.on_loops
            for rows in (network.tensors[node.outputs[0]].shape[0],)
        }
        self.best = (sum(node.operator.cycles(node.operator.narrowest) for node in network.nodes) << 8, 0)
        self.chosen: Foldings = {}
        self._paces: dict[tuple[Folding, ...], int] = {}

    @property
    def enough(self) -> bool:
        """Whether the chosen foldings keep the interval that is asked for."""
        return self.interval is not None and self.best[0] <= self.interval

    def step_cycles(self) -> Iterator[int]:
        """Yield cycles a step that the cores on loops may take: many first if there is an interval to be kept."""
        most = max(-(-node.operator.cycles(node.operator.narrowest) // self.steps[node.name]) for node in self.on_loops)
        cycles = [1]
        while cycles[-1] < most:
            cycles.append(max(cycles[-1] + 1, cycles[-1] * 4 // 3))
        yield from reversed(cycles) if self.interval is not None else cycles

    def ask(self, products: int, others: int, slower: int) -> int:
        """Consider the cheapest foldings within the budget whose cores on loops take at most some cycles a step, those
        with products and the others; return their cycles a frame, or a large number if there are none.
        """
        caps = {
            node.name: (products if node.operator.macs else others) * self.steps[node.name] for node in self.on_loops
        }
        beside = max(slower, self.interval or self.best[0])
        foldings = fold(Offers(self.network, self.cost, caps=caps), beside, self.budget)
        if foldings is None:
            return 1 << 62
        self.consider(foldings)
        return self._pace(foldings)

    def consider(self, foldings: Foldings) -> bool:
        """Choose the foldings if they are faster, or as fast and cheaper; return whether they are."""
        cycles = max(node.operator.cycles(foldings[node.name]) for node in self.network.nodes)
        if cycles > self.best[0]:
            return False
        cost = max(cycles, self._pace(foldings)), resources_of(self.network, foldings, self.cost).lut
        if cost >= self.best:
            return False
        self.best, self.chosen = cost, foldings
        return True

    def _pace(self, foldings: Mapping[str, Folding]) -> int:
        """Return the cycles a frame of the slowest loop."""
        key = tuple(foldings[node.name] for node in self.on_loops)
        if key not in self._paces:
            design = Design(*insert_gearboxes(self.network, foldings), target=self.target)
            schedules = {
                node.name: node.operator.schedule(design.folding(node))
                for loop in design.network.loops
                for node in loop
            }
            self._paces[key] = cycles_of_loops(design, schedules)
        return self._paces[key]

    def refine(self) -> None:
        """Try other foldings of the products on loops, one core after the other, while that helps."""
        trials, better = 0, True
        while better:
            better = False
            for node in self.on_loops:
                if not node.operator.macs:
                    continue
                for folding in self._others(node):
                    changed = self.chosen | {node.name: folding}
                    trials += 1
                    if trials > MAX_TRIALS or self.enough:
                        return
                    if self._fits(changed) and self.consider(changed):
                        better = True

    def quicken(self) -> None:
        """Choose foldings of less latency for cores on loops: all of them, and then the usual ones again where these do
        not matter; where there is no room for all, one after the other.
        """
        plain, quick = self.chosen, dict[str, Folding]()
        for node in self.on_loops:
            for folding in node.operator.quicker(plain[node.name]):
                quick[node.name] = folding
        if self.enough or not quick or self._pace(plain) < self.best[0]:
            return
        everywhere = plain | quick
        if self._fits(everywhere) and self._pace(everywhere) < self._pace(plain):
            self._choose(everywhere)
            for name in quick:
                fewer = self.chosen | {name: plain[name]}
                if self._pace(fewer) <= self._pace(self.chosen):
                    self._choose(fewer)
            return
        for name, folding in quick.items():
            changed = self.chosen | {name: folding}
            if not self.enough and self._fits(changed) and self._pace(changed) < self._pace(self.chosen):
                self._choose(changed)

    def _choose(self, foldings: Foldings) -> None:
        cycles = max(node.operator.cycles(foldings[node.name]) for node in self.network.nodes)
        luts = resources_of(self.network, foldings, self.cost).lut
        self.best, self.chosen = (max(cycles, self._pace(foldings)), luts), foldings

    def _others(self, node: NetworkNode) -> list[Folding]:
        """Return foldings of a node, wide and narrow, that are not the chosen one."""
        least = self.steps[node.name]
        slowest = node.operator.cycles(self.chosen[node.name]) * 2
        found: dict[Folding, None] = {}
        while least <= slowest:
            found.update(dict.fromkeys(node.operator.foldings(least)))
            least = max(least + self.steps[node.name], least * 4 // 3)
        lanes = node.operator.lanes(self.chosen[node.name])
        near = [f for f in found if lanes <= 2 * node.operator.lanes(f) and node.operator.lanes(f) <= 2 * lanes]
        return [folding for folding in near if folding != self.chosen[node.name]]

    def _fits(self, foldings: Foldings) -> bool:
        return bool((as_array(resources_of(self.network, foldings, self.cost)) <= self.allowed).all())
