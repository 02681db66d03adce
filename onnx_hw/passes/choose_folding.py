"""Choose how wide every node is: the least interval whose circuit fits the budget."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from onnx_hw.design import pins_of
from onnx_hw.network import Network, Node
from onnx_hw.ops.conversion import conversion
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.order import Order


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
        before = [sent.lanes for t in node.inputs if (sent := _given(network, t, chosen))]
        after = [taken.lanes for t in node.outputs for c in network.consumers(t) if (taken := _wanted(c, chosen))]
        candidates = list(node.operator.foldings(interval, before[0] if before else None, after[0] if after else None))
        if not candidates:
            return None
        if pins is not None:
            bearable = [folding for folding in candidates if _ends(network, chosen | {node.name: folding}).pins <= pins]
            candidates = bearable or candidates
        chosen[node.name] = min(candidates, key=lambda f: _cost(network, node, f, interval, chosen))
    return chosen


def _given(network: Network, tensor: str, chosen: Mapping[str, Folding]) -> Order | None:
    """What the producer of a tensor sends; None if it has not chosen yet, or there is none."""
    producer = network.producer(tensor)
    if producer is None or producer[0].name not in chosen:
        return None
    node, k = producer
    return node.operator.gives(chosen[node.name])[k]


def _wanted(consumer: tuple[Node, int], chosen: Mapping[str, Folding]) -> Order | None:
    """What a consumer takes; None if it has not chosen yet."""
    node, k = consumer
    return node.operator.takes(chosen[node.name])[k] if node.name in chosen else None


def _ends(network: Network, foldings: Mapping[str, Folding]) -> Resources:
    """The pins of the streams of the outside; those that are not yet chosen have one lane."""
    pins = 0
    for boundary in network.inputs:
        readers = network.consumers(boundary.tensor)
        orders = [node.operator.takes(foldings.get(node.name, node.operator.narrowest))[k] for node, k in readers]
        pins += max(map(pins_of, orders))
    for boundary in network.outputs:
        producer = network.producer(boundary.tensor)
        assert producer is not None
        node, k = producer
        pins += pins_of(node.operator.gives(foldings.get(node.name, node.operator.narrowest))[k])
    return Resources(pins=pins)


def _cost(network: Network, node: Node, folding: Folding, interval: int, chosen: dict[str, Folding]) -> float:
    """Of a node, of the gearboxes it forces, and of neighbours that have not chosen yet and will follow it."""
    operator = node.operator
    cost = weight(operator.resources(folding))
    for tensor, wanted in zip(node.inputs, operator.takes(folding), strict=True):
        producer, given = network.producer(tensor), _given(network, tensor, chosen)
        if given is not None:
            cost += weight(between(given, wanted))
        elif producer is not None:
            cost += _before(producer, wanted, interval)
    for tensor, given in zip(node.outputs, operator.gives(folding), strict=True):
        for consumer in network.consumers(tensor):
            takes = _wanted(consumer, chosen)
            cost += _after(consumer, given, interval) if takes is None else weight(between(given, takes))
    return cost


def between(given: Order, wanted: Order) -> Resources:
    """What it costs that neighbours do not agree."""
    return sum((operator.resources(folding) for operator, folding in conversion(given, wanted)), Resources())


def _before(producer: tuple[Node, int], wanted: Order, interval: int) -> float:
    """The cheapest a producer can be, with a gearbox if it cannot meet what is wanted."""
    operator, k = producer[0].operator, producer[1]
    candidates = operator.foldings(interval, None, wanted.lanes)
    return _cheapest(operator, ((folding, between(operator.gives(folding)[k], wanted)) for folding in candidates))


def _after(consumer: tuple[Node, int], given: Order, interval: int) -> float:
    """The same of a consumer."""
    operator, k = consumer[0].operator, consumer[1]
    candidates = operator.foldings(interval, given.lanes, None)
    return _cheapest(operator, ((folding, between(given, operator.takes(folding)[k])) for folding in candidates))


def _cheapest(operator: Operator, candidates: Iterable[tuple[Folding, Resources]]) -> float:
    costs = (weight(operator.resources(folding)) + weight(beside) for folding, beside in candidates)
    return min(costs, default=float("inf"))


def resources_of(network: Network, foldings: dict[str, Folding]) -> Resources:
    """Estimates of all nodes and of the gearboxes between them, and the pins."""
    total = _ends(network, foldings)
    for node in network.nodes:
        total += node.operator.resources(foldings[node.name])
        for tensor, wanted in zip(node.inputs, node.operator.takes(foldings[node.name]), strict=True):
            given = _given(network, tensor, foldings)
            if given is not None:
                total += between(given, wanted)
    return total


def least_interval(network: Network) -> tuple[int, Node]:
    """Cycles a frame below which there is no folding, and the node that takes them with every lane it can have."""
    return max(((_least_cycles(node), node) for node in network.nodes), key=lambda pair: pair[0])


def _least_cycles(node: Node) -> int:
    slow, fast = node.operator.cycles(node.operator.narrowest), 0
    while slow - fast > 1:
        middle = (slow + fast) // 2
        if next(node.operator.foldings(middle), None) is None:
            fast = middle
        else:
            slow = middle
    return slow


def longest_interval(network: Network) -> int:
    """Cycles a frame of the slowest design: one lane everywhere."""
    return max(node.operator.cycles(node.operator.narrowest) for node in network.nodes)


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
