"""Foldings for the least latency: the time of a frame alone, from its first beat in to its last beat out.

The fastest pipeline gives every node as many lanes as the common interval asks for. A frame alone is in few nodes at
once, so that lanes do more where it spends its time. A node with m products that takes c cycles has m / c lanes. If a
frame spends the part w of these cycles on its critical path, another lane saves w · c² / m cycles: as many as it spends
there per lane. At the least latency that is the same for all nodes. So lanes move to where a frame spends many critical
cycles a lane, in smaller and smaller steps; the critical path follows from the firing law. Then single cores are tried.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice, product, repeat
from typing import Any, NamedTuple

import numpy as np

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ir.target import DesignTarget
from onnx_hw.ir.verify_design import verify_design
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator
from onnx_hw.schedule.budget import Budget, weight
from onnx_hw.schedule.candidates import Offers, allowed_by
from onnx_hw.schedule.converters import as_array
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.folding_for_interval import fold, resources_of
from onnx_hw.schedule.insert_gearboxes import insert_gearboxes
from onnx_hw.schedule.loop_pace import ample_on_loops
from onnx_hw.schedule.min_cycles import least_cycles_of, longest_interval
from onnx_hw.timing.critical_path import busy_cycles
from onnx_hw.timing.frame_times import Frames
from onnx_hw.timing.prediction import Events

Foldings = dict[str, Folding]

LEAST = 0
"""Latency that is asked for where the least one is searched for, whatever it costs."""

ROUNDS = 16
"""Number of times that shares of the critical path are turned into foldings."""

HALVINGS = 8
"""Number of times that the range of cycles is halved for the cheapest foldings of a latency."""

MIN_HURRIED = 50
"""Divisor of the latency: a node without products on which a frame spends more than this part is made quicker."""

MAX_STEPS = 0.1, 0.3
"""Parts by which the lanes of a core change in the first round at most, later rounds less: from cores that all take the
same time, as in a pipeline; from cores of which each waits for the one before."""

PATIENCE = 5
"""Number of rounds without a gain after which no more are tried."""

STRIDE = 1.04
"""Factor by which all cycles grow where the budget is too small for them."""

MAX_STRIDES = 24
"""Number of times that all cycles grow at most."""

QUICKER, SLOWER = (15, 13, 11, 8, 4), (17, 20, 24, 32, 64)
"""Sixteenths of the cycles of a core that are asked for."""

MAX_CHOICES = 20_000
"""Number of choices of foldings up to which all of them are tried."""

MAX_TRIALS = 300
"""Number of foldings of single cores, and of two cores at once, that are tried."""

MAX_TRIED_EVENTS = 100_000_000
"""Number of events of the firing law that are solved for all trials together, at most."""


def fold_for_latency(
    network: Network,
    foldings: Foldings,
    budget: Budget,
    target: DesignTarget,
    cost: Cost,
    *,
    latency: int = LEAST,
) -> Foldings | None:
    """Return foldings with less latency than those given.

    Args:
        foldings: those with the least interval.
        latency: cycles that are enough, for the cheapest of the foldings that are as quick; ``LEAST`` for the quickest.

    Returns:
        the foldings; None if none is as quick.
    """
    search = _Latencies(network, budget, target, cost)
    search.consider(foldings)
    search.share_lanes()
    search.refine()
    if latency == LEAST:
        return search.chosen
    if search.latency_of(search.chosen) > latency:
        return None
    return search.cheapest(latency)


def cycles_of_frame_alone(design: Design) -> int:
    """Return the cycles from a frame's first beat in to its last beat out, in an idle circuit with sized FIFOs."""
    return Frames(design).times(1, 0).latency()


def deepen_fifos(design: Design) -> Design:
    """Return the design with FIFOs that hold a frame alone up no more than FIFOs of any depth would.

    The depths that keep the interval are often less: a core that waits there has time until the next frame. Those that
    do not help stay as they are. Tokens of a deeper FIFO are visible later, so that none becomes as deep as that.
    """
    edges = {edge.tensor: edge for edge in design.edges() if edge.producer}
    least = {tensor: size.depth for tensor, size in design.fifos.items()}
    depths = {tensor: max(least[tensor], min(edge.beats, edge.deepest_at_once)) for tensor, edge in edges.items()}
    frames = Frames(design)
    cycles = frames.times(1, 0, depths).latency()
    if cycles == frames.times(1, 0, least).latency():
        return design
    for tensor in sorted(depths, key=lambda tensor: -edges[tensor].bits):
        changed = depths | {tensor: least[tensor]}
        if frames.times(1, 0, changed).latency() == cycles:
            depths = changed
    fifos = {tensor: replace(size, depth=depths[tensor]) for tensor, size in design.fifos.items()}
    return verify_design(replace(design, fifos=fifos), "size_fifos")


def _legal(operator: Operator[Any]) -> Iterator[Folding]:
    """Yield all foldings with one pixel in a beat; more than ``MAX_CHOICES`` are not wanted."""
    lanes = {name: most for name, most in operator.limits().items() if name.endswith("lanes")}
    if math.prod(lanes.values()) > MAX_CHOICES:
        yield from repeat(operator.narrowest, MAX_CHOICES + 1)
        return
    for numbers in product(*(range(1, most + 1) for most in lanes.values())):
        folding = operator.folding_type(**dict(zip(lanes, numbers, strict=True)))
        if not operator.illegal(folding):
            yield folding


class FrameAlone(NamedTuple):
    """A frame in an idle circuit, by the firing law, where no FIFO is too shallow.

    Attributes:
        cycles: from its first beat in to its last beat out.
        busy: cycles that each node spends on the critical path, by node.
        events: operations of all engines.
    """

    cycles: int
    busy: dict[str, int]
    events: int


def frame_alone(design: Design) -> FrameAlone:
    """Solve the firing law for one frame.

    Tokens of a deep FIFO are visible later. So all are shallow, but where branches hold more tokens than that.
    """
    schedules = design.schedules()
    edges = [edge for edge in design.edges() if edge.producer]
    on_loops = ample_on_loops(design, schedules)
    shallow = {edge.tensor: min(edge.beats, edge.deepest_at_once) for edge in edges} | on_loops
    deep = {edge.tensor: edge.beats for edge in edges} | on_loops
    offers = {e.tensor: np.zeros(e.beats, dtype=np.int64) for e in design.edges() if e.producer is None}
    events, branches = Events(design, schedules), any(len(node.outputs) > 1 for node in design.network.nodes)
    solved: list[FrameAlone] = []
    for depths in (shallow, deep) if branches and shallow != deep else (shallow,):
        (times,) = deque(events.solutions(1, offers=offers, depths=depths), maxlen=1)
        if all(time.fired == track.operations for track, time in times.items()):
            last = max(int(time.cycles[-1]) for track, time in times.items() if track.name[0] == "sink")
            solved.append(FrameAlone(last + 1, busy_cycles(times), sum(time.fired for time in times.values())))
    return min(solved, key=lambda frame: frame.cycles)


class _Latencies:
    """Best foldings so far.

    Attributes:
        chosen: the foldings.
    """

    def __init__(self, network: Network, budget: Budget, target: DesignTarget, cost: Cost) -> None:
        self.network, self.target, self.cost = network, target, cost
        self.budget, self.allowed = budget, allowed_by(budget)
        self.chosen: Foldings = {}
        self._products = [node for node in network.nodes if node.operator.macs]
        self._longest = longest_interval(network)
        self._solved: dict[tuple[Folding, ...], FrameAlone] = {}
        self._hurries: dict[str, int] = {}
        self._events = 0

    def latency_of(self, foldings: Mapping[str, Folding]) -> int:
        """Return the cycles of a frame alone."""
        return self._solve(foldings).cycles

    def consider(self, foldings: Foldings) -> bool:
        """Choose the foldings if they are quicker, or as quick and cheaper; return whether they are."""
        better = not self.chosen or self._rank(foldings) < self._rank(self.chosen)
        if better:
            self.chosen = foldings
        return better

    def share_lanes(self) -> None:
        """Give each product lanes by the cycles that a frame spends in it on the critical path."""
        chosen = self.chosen
        equal = {node.name: float(chosen_cycles) for node, chosen_cycles in self._cycles(chosen)}
        alone = {node.name: math.sqrt(node.operator.macs) for node in self._products}
        for cycles, step in ((equal, MAX_STEPS[0]), (alone, MAX_STEPS[1])):
            spent: dict[str, float] = {}
            failed = 0
            for round_ in range(ROUNDS):
                foldings = self._folded(cycles)
                if foldings is None:
                    break
                failed = 0 if self.consider(foldings) else failed + 1
                if failed == PATIENCE:
                    break
                self._hurry(foldings)
                busy = self._solve(foldings).busy
                taken = {node.name: taken for node, taken in self._cycles(foldings)}
                spent = {name: (spent.get(name, busy.get(name, 0)) + busy.get(name, 0)) / 2 for name in cycles}
                cycles = self._moved(taken, spent, 1 + step / (1 + round_))

    def _cycles(self, foldings: Foldings) -> Iterator[tuple[NetworkNode, int]]:
        """Yield the products and the cycles that they take."""
        return ((node, node.operator.cycles(foldings[node.name])) for node in self._products)

    def _moved(self, cycles: Mapping[str, int], spent: Mapping[str, float], step: float) -> dict[str, float]:
        """Return cycles of the products with more lanes where a frame spends more critical cycles a lane."""
        lanes = {node.name: node.operator.macs / cycles[node.name] for node in self._products}
        average = max(1.0, sum(spent.values())) / sum(lanes.values())
        gains = {name: max(spent[name] / lanes[name] / average, 1e-9) for name in cycles}
        return {name: cycles[name] / min(step, max(1 / step, math.sqrt(gains[name]))) for name in cycles}

    def refine(self) -> None:
        """Try other foldings: all there are of a small network; else those of one core, or a wider one of one and a
        narrower one of another, while that helps.
        """
        small = self._all_of_few()
        if small is not None:
            self._try(small)
            return
        left = MAX_TRIALS
        while left > 0:
            before = self.chosen
            left -= self._try(islice(self._neighbours(), left), once=True)
            if self.chosen is before:
                return

    def _try(self, some: Iterable[Foldings], *, once: bool = False) -> int:
        """Consider those that fit; return how many they are. With ``once``, only up to the first that is better."""
        tried = 0
        for foldings in some:
            if self._events > MAX_TRIED_EVENTS:
                return MAX_TRIALS
            if self._fits(foldings):
                tried += 1
                if self.consider(foldings) and once:
                    break
        return max(tried, 1)

    def _all_of_few(self) -> Iterator[Foldings] | None:
        """Return every choice of foldings with one pixel in a beat; None if they are too many."""
        legal = [list(_legal(node.operator)) for node in self.network.nodes]
        if math.prod(map(len, legal)) > MAX_CHOICES:
            return None
        most = self.budget.mac_lanes or math.inf
        lanes = [[(node.operator.lanes(folding), folding) for folding in some]
                 for node, some in zip(self.network.nodes, legal, strict=True)]  # fmt: skip
        names = [node.name for node in self.network.nodes]
        return (
            {name: folding for name, (_, folding) in zip(names, choice, strict=True)}
            for choice in product(*lanes)
            if sum(count for count, _ in choice) <= most
        )

    def cheapest(self, latency: int) -> Foldings:
        """Return cheap foldings of at most this latency.

        All cycles grow until they are too slow: those of the chosen foldings, with and without hurry, and equal ones.
        """
        cheapest, hurries = self.chosen, self._hurries
        taken = {node.name: float(taken) for node, taken in self._cycles(self.chosen)}
        equal = dict.fromkeys(taken, min(taken.values(), default=1.0))
        for cycles, hurried in ((equal, {}), (taken, {}), (taken, hurries)):
            self._hurries = hurried
            quick, slow = 1.0, max(2.0, latency / min(cycles.values(), default=1.0))
            for _ in range(HALVINGS):
                factor = math.sqrt(quick * slow)
                foldings = self._at({name: factor * length for name, length in cycles.items()})
                if foldings is None or self.latency_of(foldings) <= latency:
                    quick = factor
                else:
                    slow = factor
                if foldings is not None and self.latency_of(foldings) <= latency:
                    cheapest = min(cheapest, foldings, key=self._price)
        return cheapest

    def _rank(self, foldings: Foldings) -> tuple[int, float]:
        return self.latency_of(foldings), self._price(foldings)

    def _price(self, foldings: Foldings) -> float:
        return weight(resources_of(self.network, foldings, self.cost))

    def _solve(self, foldings: Mapping[str, Folding]) -> FrameAlone:
        key = tuple(foldings[node.name] for node in self.network.nodes)
        if key not in self._solved:
            design = Design(*insert_gearboxes(self.network, foldings), target=self.target)
            self._solved[key] = frame_alone(design)
            self._events += self._solved[key].events
        return self._solved[key]

    def _hurry(self, foldings: Foldings) -> None:
        """Ask nodes without products for half the cycles next time, if a frame spends much of its latency there."""
        frame = self._solve(foldings)
        for node in self.network.nodes:
            if not node.operator.macs and frame.busy.get(node.name, 0) * MIN_HURRIED > frame.cycles:
                self._hurries[node.name] = self._hurries.get(node.name, 0) + 1

    def _folded(self, cycles: Mapping[str, float]) -> Foldings | None:
        """Return foldings that use the lanes of the budget, with cycles in these proportions."""
        lanes = sum(node.operator.macs / cycles[node.name] for node in self._products)
        bounds = (self.budget.mac_lanes, None if self.budget.in_logic else self.budget.dsp)
        most = min((most for most in bounds if most is not None), default=None)
        unit = lanes / most if most else 1.0
        for _ in range(MAX_STRIDES):
            foldings = self._at({name: unit * taken for name, taken in cycles.items()})
            if foldings is not None:
                return foldings
            unit *= STRIDE
        return None

    def _at(self, cycles: Mapping[str, float]) -> Foldings | None:
        """Return cheap foldings whose products take at most some cycles, and other nodes no more than those beside
        them; None if the budget has none.
        """
        caps = {node.name: max(least_cycles_of(node.operator), int(cycles[node.name])) for node in self._products}
        caps |= self._beside(caps)
        return fold(
            Offers(self.network, self.cost, in_logic=self.budget.in_logic, caps=caps), self._longest, self.budget
        )

    def _beside(self, caps: Mapping[str, int]) -> dict[str, int]:
        """Return the cycles of the nodes without products, by node: those of the quickest product before or behind."""
        most: dict[str, int] = {}
        for nodes, near in ((self.network.nodes, self._makers), (self.network.nodes[::-1], self._readers)):
            reached: dict[str, int] = {}
            for node in nodes:
                few = (caps.get(other, reached.get(other, self._longest)) for other in near(node))
                reached[node.name] = min(few, default=self._longest)
                most[node.name] = min(most.get(node.name, self._longest), reached[node.name])
        hurried = {node.name: most[node.name] >> self._hurries.get(node.name, 0) for node in self.network.nodes}
        others = (node for node in self.network.nodes if node.name not in caps)
        return {node.name: max(least_cycles_of(node.operator), hurried[node.name]) for node in others}

    def _makers(self, node: NetworkNode) -> Iterator[str]:
        makers = (self.network.producer(tensor) for tensor in node.inputs)
        return (maker[0].name for maker in makers if maker is not None)

    def _readers(self, node: NetworkNode) -> Iterator[str]:
        return (reader.name for tensor in node.outputs for reader, _ in self.network.consumers(tensor))

    def _neighbours(self) -> Iterator[Foldings]:
        """Yield foldings in which one core differs from the chosen ones, then two of them."""
        busy = self._solve(self.chosen).busy
        path = sorted(self.network.nodes, key=lambda node: -busy.get(node.name, 0))
        quicker = {node.name: self._others(node, QUICKER) for node in path if busy.get(node.name)}
        for node in path:
            yield from (self.chosen | {node.name: folding} for folding in quicker.get(node.name, ()))
        slower = {node.name: self._others(node, SLOWER) for node in path}
        for node in path:
            for folding in quicker.get(node.name, ())[:2]:
                for other in reversed(path):
                    if other.name != node.name:
                        for narrow in slower[other.name][:2]:
                            yield self.chosen | {node.name: folding, other.name: narrow}

    def _others(self, node: NetworkNode, sixteenths: tuple[int, ...]) -> list[Folding]:
        """Return foldings of a node that take parts of the cycles of the chosen one, the nearest first."""
        taken, least = node.operator.cycles(self.chosen[node.name]), least_cycles_of(node.operator)
        asked = [cycles for part in sixteenths if (cycles := taken * part // 16) >= least]
        found = dict.fromkeys(folding for cycles in asked for folding in node.operator.foldings(cycles))
        return [folding for folding in found if folding != self.chosen[node.name]]

    def _fits(self, foldings: Foldings) -> bool:
        return bool((as_array(resources_of(self.network, foldings, self.cost)) <= self.allowed).all())
