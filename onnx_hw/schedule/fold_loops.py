"""Foldings for networks with loops: as fast round the loop as the budget allows, and no faster beside it.

A core that keeps the interval with one lane may be far too slow on a loop, whose latency counts once a step. So the
cores on loops are asked for foldings of fewer cycles than the others, from very few on, and the firing law says how
fast the loops then go round. Cores beside the loops must be as fast as these, not faster. Products are tried one by one
and in pairs afterwards: lanes that do not matter to one of them are worth more at another, for which a step waits.
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

NEVER = 1 << 62
"""Number of cycles of foldings that there are not."""

MAX_TRIALS = 200
"""Number of foldings of single products, or of two of them, that are tried."""

MAX_WIDER = 4
"""Number of faster foldings of a product that are tried with the lanes of another one."""


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
        if not search.enough and (interval is not None or not search.too_slow(cycles, alike)):
            alike[cycles] = search.ask(cycles, cycles, slower)
    promising = sorted(alike, key=lambda cycles: alike[cycles])
    kept: dict[int, int] = {}  # the same, of those where the cores beside the loops are as fast as these
    for cycles in promising:
        if interval is not None or alike[cycles] >= search.best[0]:
            break
        kept[cycles] = search.ask(cycles, cycles, max(slower, alike[cycles]), beside=alike[cycles])
    if min(kept.values(), default=NEVER) < NEVER:
        promising = sorted(kept, key=lambda cycles: kept[cycles])
    for cycles in promising[:REFINED]:
        for others in (1 << k for k in range(cycles.bit_length())):
            if others < cycles and not search.enough:
                search.ask(cycles, others, slower)
    search.quicken()
    search.refine(slower)
    search.relax()
    return search.chosen if interval is None or search.best[0] <= interval else None


class _Loops:
    """Best foldings so far.

    Attributes:
        products: nodes that multiply and accumulate, on loops and beside them.
        steps: by node on a loop, the operations of its slowest engine for one beat a step.
        best: cycles a frame of the chosen foldings, and what else decides between equal ones.
        chosen: the foldings.
    """

    def __init__(
        self, network: Network, budget: Budget, target: DesignTarget, cost: Cost, interval: int | None
    ) -> None:
        self.network, self.target, self.cost, self.interval = network, target, cost, interval
        self.budget, self.allowed = budget, allowed_by(budget)
        self.products = [node for node in network.nodes if node.operator.macs]
        self.on_loops = [node for loop in network.loops for node in loop]
        self.steps = {
            node.name: 2 * rows if node.operator.keeps else rows + bool(node.operator.feedback)
            for node in self.on_loops
            for rows in (network.tensors[node.outputs[0]].shape[0],)
        }
        self._rows = max(self.steps.values())
        slowest = sum(node.operator.cycles(node.operator.narrowest) for node in network.nodes)
        self.best = (slowest << 8, 0, 0, 0)
        self.chosen: Foldings = {}
        self._paces: dict[tuple[Folding, ...], int] = {}
        self._usual: Foldings = {}
        self._near: dict[tuple[str, Folding], list[Folding]] = {}

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

    def too_slow(self, cycles: int, frame_cycles: Mapping[int, int]) -> bool:
        """Return whether cores that take these cycles a step take longer than a whole loop that was seen."""
        return cycles * self._rows > min(frame_cycles.values(), default=cycles * self._rows)

    def ask(self, products: int, others: int, slower: int, beside: int | None = None) -> int:
        """Consider the cheapest foldings within the budget whose cores on loops take at most some cycles a step, those
        with products and the others; return the cycles a frame of the loops, or a large number if there are none.

        Args:
            beside: cycles a frame of the cores beside the loops; None for those of the best foldings so far.
        """
        caps = {
            node.name: (products if node.operator.macs else others) * self.steps[node.name] for node in self.on_loops
        }
        beside = max(slower, self.interval or beside or self.best[0])
        foldings = fold(Offers(self.network, self.cost, caps=caps), beside, self.budget)
        if foldings is None:
            return NEVER
        self.consider(foldings)
        return self._pace(foldings)

    def consider(self, foldings: Foldings) -> bool:
        """Choose the foldings if they are faster, or as fast and cheaper; return whether they are."""
        cycles = max(node.operator.cycles(foldings[node.name]) for node in self.network.nodes)
        if cycles > self.best[0]:
            return False
        cost = self._cost_of(foldings)
        if cost >= self.best:
            return False
        self.best, self.chosen = cost, foldings
        return True

    def _cost_of(self, foldings: Foldings) -> tuple[int, int, int, int]:
        """Return the cycles a frame; products beside the loops that take longer than these do; lanes; LUTs.

        Where several products bind the speed, they get their lanes one by one, and lanes that do not matter to one
        product are left for another.
        """
        pace = self._pace(foldings)
        cycles = {node.name: node.operator.cycles(foldings[node.name]) for node in self.network.nodes}
        slower = sum(cycles[node.name] > pace for node in self.products if node.name not in self.steps)
        used = resources_of(self.network, foldings, self.cost)
        return max(pace, *cycles.values()), slower, used.mac_lanes, used.lut

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

    def refine(self, slower: int) -> None:
        """Try other foldings of the products, while that helps: of one core, or of one that gets the lanes of another.

        Args:
            slower: cycles a frame that cores beside the loops may take at least.
        """
        trials = 0
        for exchange in (False, True):  # shapes alone first, which are few
            better = True
            while better:
                better = False
                for node in self.products:
                    rest = [other for other in self.products if exchange and other is not node]
                    for changed in self._with_others(node, rest, slower):
                        trials += 1
                        if trials > MAX_TRIALS or self.enough:
                            return
                        if self._fits(changed) and self.consider(changed):
                            better = True
                            break

    def _with_others(self, node: NetworkNode, rest: list[NetworkNode], slower: int) -> Iterator[Foldings]:
        """Yield foldings with lanes enough that differ in one product, or in one that is faster and another one that is
        narrower.
        """
        chosen, narrow = self.chosen, list[Folding]()
        slowest, least = node.operator.cycles(chosen[node.name]), 0 if node.name in self.steps else slower
        for folding in sorted(self._others(node), key=node.operator.cycles):
            changed, cycles = chosen | {node.name: folding}, node.operator.cycles(folding)
            if cycles >= least and self._has_lanes(changed):
                yield changed
            elif least <= cycles < slowest:
                narrow.append(folding)
        for folding in sorted(narrow, key=node.operator.lanes)[:MAX_WIDER]:
            for other in rest:
                changed = chosen | {node.name: folding}
                fitting = [f for f in self._others(other) if self._has_lanes(changed | {other.name: f})]
                quickest = min(fitting, key=other.operator.cycles, default=None)
                if quickest is not None:
                    yield changed | {other.name: quickest}

    def _has_lanes(self, foldings: Foldings) -> bool:
        """Return whether there are the lanes for foldings; multipliers and look-up tables are counted elsewhere."""
        lanes = sum(node.operator.lanes(foldings[node.name]) for node in self.products)
        return self.budget.mac_lanes is None or lanes <= self.budget.mac_lanes

    def quicken(self) -> None:
        """Choose foldings of less latency for cores on loops: all of them, or, where there is no room for all, one
        after the other.
        """
        quick = {
            node.name: folding for node in self.on_loops for folding in node.operator.quicker(self.chosen[node.name])
        }
        everywhere, self._usual = self.chosen | quick, {name: self.chosen[name] for name in quick}
        if self.enough or not quick:
            return
        if self._fits(everywhere):
            if self._pace(everywhere) < self._pace(self.chosen):
                self._choose(everywhere)
            return
        for name, folding in quick.items():
            changed = self.chosen | {name: folding}
            if not self.enough and self._fits(changed) and self._pace(changed) < self._pace(self.chosen):
                self._choose(changed)

    def relax(self) -> None:
        """Choose the usual foldings again where those of less latency do not matter."""
        for name, usual in self._usual.items():
            changed = self.chosen | {name: usual}
            if changed != self.chosen and self._fits(changed) and self._cost_of(changed)[0] <= self.best[0]:
                self._choose(changed)

    def _choose(self, foldings: Foldings) -> None:
        self.best, self.chosen = self._cost_of(foldings), foldings

    def _others(self, node: NetworkNode) -> list[Folding]:
        """Return foldings of a node, wide and narrow, that are not the chosen one."""
        key = node.name, self.chosen[node.name]
        if key not in self._near:
            self._near[key] = self._near_ones(node)
        return self._near[key]

    def _near_ones(self, node: NetworkNode) -> list[Folding]:
        least = step = self.steps.get(node.name) or self._rows
        slowest = node.operator.cycles(self.chosen[node.name]) * 2
        found: dict[Folding, None] = {}
        while least <= slowest:
            found.update(dict.fromkeys(node.operator.foldings(least)))
            least = max(least + step, least * 4 // 3)
        found.update(dict.fromkeys(node.operator.foldings(slowest)))
        lanes = node.operator.lanes(self.chosen[node.name])
        near = [f for f in found if lanes <= 2 * node.operator.lanes(f) and node.operator.lanes(f) <= 2 * lanes]
        return [folding for folding in near if folding != self.chosen[node.name]]

    def _fits(self, foldings: Foldings) -> bool:
        return bool((as_array(resources_of(self.network, foldings, self.cost)) <= self.allowed).all())
