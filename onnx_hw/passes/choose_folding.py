"""Choose how wide every node is: the least interval whose circuit fits the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onnx_hw.design import pins_of
from onnx_hw.network import Network, Node
from onnx_hw.ops.gearbox import Gearbox
from onnx_hw.ops.operator import Folding, Operator, Resources


@dataclass(frozen=True)
class Budget:
    """What a design may use; None for no bound.

    Attributes:
        mac_lanes: products per cycle.
        dsp: hardware multipliers.
        lut, bram: look-up tables; block RAMs.
        pins: of the chip, where the streams of the outside lie on them.
    """

    mac_lanes: int | None = None
    dsp: int | None = None
    lut: int | None = None
    bram: int | None = None
    pins: int | None = None

    def excess(self, used: Resources) -> dict[str, tuple[int, int]]:
        """(used, allowed) of everything there is too much of."""
        return {RESOURCES[field]: pair for field, pair in self._exceeded(used).items()}

    def stretched(self, used: Resources, most: Budget) -> Budget:
        """With all that ``most`` has of whatever ``used`` takes too much of."""
        return replace(self, **{field: getattr(most, field) for field in self._exceeded(used)})

    def _exceeded(self, used: Resources) -> dict[str, tuple[int, int]]:
        pairs = {field: (amount(used, field), getattr(self, field)) for field in RESOURCES}
        return {field: (have, most) for field, (have, most) in pairs.items() if most is not None and have > most}


RESOURCES = {"mac_lanes": "MAC lanes", "dsp": "multipliers", "lut": "LUTs", "bram": "block RAMs", "pins": "pins"}
"""The fields of a ``Budget``, as people call them."""


def amount(used: Resources, field: str) -> int:
    """What is used of a resource that a ``Budget`` has a field for."""
    return int(getattr(used, field))


LUTS_PER_DSP = 537
LUTS_PER_BRAM = 402
"""A resource weighs as much as its share of an LFE5U-85F: 83,640 LUTs, 156 multipliers, 208 block RAMs."""


def weight(resources: Resources) -> float:
    """A cost to compare candidates by, in LUTs."""
    return resources.lut + LUTS_PER_DSP * resources.dsp + LUTS_PER_BRAM * resources.bram


def fold_for(network: Network, interval: int, pins: int | None = None) -> dict[str, Folding] | None:
    """Foldings with which every node finishes a frame in ``interval`` cycles; None if a node cannot.

    Where ``pins`` bounds them, the streams of the outside are as wide as a node can bear that keeps up.

    Nodes that multiply choose first, since their lanes are the scarce thing; the others meet what their neighbours
    have chosen, or the least that keeps up.
    """
    order = sorted(network.nodes, key=lambda node: -node.operator.macs)  # stable: topological among equals
    multiply = [node for node in order if node.operator.macs]
    others = [node for node in network.nodes if not node.operator.macs]
    chosen: dict[str, Folding] = {}
    for node in multiply + others:
        before = [
            chosen[p[0].name].out_lanes for t in node.inputs if (p := network.producer(t)) and p[0].name in chosen
        ]
        after = [chosen[c.name].in_lanes for t in node.outputs for c, _ in network.consumers(t) if c.name in chosen]
        candidates = list(node.operator.foldings(interval, before[0] if before else None, after[0] if after else None))
        if not candidates:
            return None
        if pins is not None:
            bearable = [folding for folding in candidates if _ends(network, chosen | {node.name: folding}).pins <= pins]
            candidates = bearable or candidates
        chosen[node.name] = min(candidates, key=lambda f: _cost(network, node, f, interval, chosen))
    return chosen


def _ends(network: Network, foldings: Mapping[str, Folding]) -> Resources:
    """The pins of the streams of the outside; those that are not yet chosen have one lane."""
    narrowest, pins = Folding(1, 1), 0
    for boundary in network.inputs:
        readers = network.consumers(boundary.tensor)
        orders = [node.operator.takes(foldings.get(node.name, narrowest))[k] for node, k in readers]
        pins += max(map(pins_of, orders))
    for boundary in network.outputs:
        producer = network.producer(boundary.tensor)
        assert producer is not None
        node, k = producer
        pins += pins_of(node.operator.gives(foldings.get(node.name, narrowest))[k])
    return Resources(pins=pins)


def _cost(network: Network, node: Node, folding: Folding, interval: int, chosen: dict[str, Folding]) -> float:
    """Of a node, of the gearboxes it forces, and of neighbours that have not chosen yet and will follow it."""
    cost = weight(node.operator.resources(folding))
    for tensor in node.inputs:
        producer = network.producer(tensor)
        if producer is None:
            continue
        operator = producer[0].operator
        if producer[0].name in chosen:
            cost += _gearbox(network, tensor, chosen[producer[0].name].out_lanes, folding.in_lanes)
        else:
            cost += _follower(operator, network, tensor, interval, None, folding.in_lanes)
    for tensor in node.outputs:
        for consumer, _ in network.consumers(tensor):
            if consumer.name in chosen:
                cost += _gearbox(network, tensor, folding.out_lanes, chosen[consumer.name].in_lanes)
            else:
                cost += _follower(consumer.operator, network, tensor, interval, folding.out_lanes, None)
    return cost


def _gearbox(network: Network, tensor: str, given: int, wanted: int) -> float:
    if given == wanted:
        return 0.0
    return weight(Gearbox(network.tensors[tensor]).resources(Folding(given, wanted)))


def _follower(
    operator: Operator, network: Network, tensor: str, interval: int, in_lanes: int | None, out_lanes: int | None
) -> float:
    """The cheapest a neighbour can be, with a gearbox if it cannot meet the lanes."""
    costs = []
    for folding in operator.foldings(interval, in_lanes, out_lanes):
        cost = weight(operator.resources(folding))
        if in_lanes is not None:
            cost += _gearbox(network, tensor, in_lanes, folding.in_lanes)
        if out_lanes is not None:
            cost += _gearbox(network, tensor, folding.out_lanes, out_lanes)
        costs.append(cost)
    return min(costs, default=float("inf"))


def resources_of(network: Network, foldings: dict[str, Folding]) -> Resources:
    """Estimates of all nodes and of the gearboxes between them, and the pins."""
    total = _ends(network, foldings)
    for node in network.nodes:
        total += node.operator.resources(foldings[node.name])
        for tensor in node.inputs:
            producer = network.producer(tensor)
            if producer and foldings[producer[0].name].out_lanes != foldings[node.name].in_lanes:
                lanes = Folding(foldings[producer[0].name].out_lanes, foldings[node.name].in_lanes)
                total += Gearbox(network.tensors[tensor]).resources(lanes)
    return total


def least_interval(network: Network) -> tuple[int, Node]:
    """Cycles a frame below which there is no folding, and the node that takes them with every lane it can have."""
    return max(((_least_cycles(node), node) for node in network.nodes), key=lambda pair: pair[0])


def _least_cycles(node: Node) -> int:
    slow, fast = node.operator.cycles(Folding(1, 1)), 0
    while slow - fast > 1:
        middle = (slow + fast) // 2
        if next(node.operator.foldings(middle), None) is None:
            fast = middle
        else:
            slow = middle
    return slow


def longest_interval(network: Network) -> int:
    """Cycles a frame of the slowest design: one lane everywhere."""
    return max(node.operator.cycles(Folding(1, 1)) for node in network.nodes)


def choose_folding(network: Network, budget: Budget, from_interval: int = 0) -> dict[str, Folding] | None:
    """The foldings of the least interval, ``from_interval`` or more, that fits, by bisection; None if nothing fits.

    Among intervals, fewer cycles never need less hardware except by luck of rounding, so bisection finds the least
    interval up to that luck.
    """

    def fits(interval: int) -> dict[str, Folding] | None:
        return _within(network, budget, interval)

    longest = longest_interval(network)
    low = high = min(max(from_interval, least_interval(network)[0]), longest)
    best = fits(high)
    while best is None and high < longest:
        low, high = high, min(2 * high, longest)
        best = fits(high)
    if best is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        found = fits(middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best


def cheapest_folding(network: Network, budget: Budget, interval: int) -> dict[str, Folding] | None:
    """The foldings of the longest interval, at most ``interval`` cycles, that fits; None if nothing does.

    A slower design is a cheaper one but for the same luck, which is tried down to half the interval.
    """
    least = least_interval(network)[0]
    for sixteenths in range(16, 7, -1):
        shorter = interval * sixteenths // 16
        found = _within(network, budget, shorter) if shorter >= least else None
        if found is not None:
            return found
    return None


def _within(network: Network, budget: Budget, interval: int) -> dict[str, Folding] | None:
    foldings = fold_for(network, interval, budget.pins)
    if foldings is None or budget.excess(resources_of(network, foldings)):
        return None
    return foldings
