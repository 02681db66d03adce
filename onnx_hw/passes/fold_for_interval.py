"""The cheapest folding of every node with which a frame takes so many cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from onnx_hw.design import pins_of
from onnx_hw.network import Network, Node
from onnx_hw.ops.conversion import conversion
from onnx_hw.ops.folding import Folding
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.order import Order
from onnx_hw.passes.budget import weight
from onnx_hw.passes.cost import Cost
from onnx_hw.passes.cost import cost as own_cost


def fold_for(
    network: Network, interval: int, pins: int | None = None, cost: Cost = own_cost
) -> dict[str, Folding] | None:
    """Foldings with which every core finishes a frame in ``interval`` cycles; None if a node cannot, or what lies
    between two of them: neighbours with several pixels a beat must agree where one is too slow.

    Where ``pins`` bounds them, the streams of the outside are as wide as a node can bear that keeps up.

    Nodes that multiply choose first, since their lanes are the scarce thing; the others meet what their neighbours
    have chosen, or the least that keeps up.
    """
    order = sorted(network.nodes, key=lambda node: -node.operator.macs)  # stable: topological among equals
    multiply = [node for node in order if node.operator.macs]
    others = [node for node in network.nodes if not node.operator.macs]
    chosen: dict[str, Folding] = {}
    for node in multiply + others:
        before = (_given(network, tensor, chosen) for tensor in node.inputs)
        after = (_wanted(consumer, chosen) for tensor in node.outputs for consumer in network.consumers(tensor))
        given, wanted = (next((order for order in orders if order), None) for orders in (before, after))
        candidates = list(node.operator.foldings(interval, given, wanted))
        if pins is not None:
            bearable = [folding for folding in candidates if _ends(network, chosen | {node.name: folding}).pins <= pins]
            candidates = bearable or candidates
        costs = [_weight(network, node, folding, interval, chosen, cost) for folding in candidates]
        least = min(costs, default=inf)
        if least == inf:
            return None
        chosen[node.name] = candidates[costs.index(least)]
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


def _weight(
    network: Network, node: Node, folding: Folding, interval: int, chosen: dict[str, Folding], cost: Cost
) -> float:
    """Of a node, of the gearboxes it forces, and of neighbours that have not chosen yet and will follow it."""
    operator = node.operator
    total = weight(cost(operator, folding))
    for tensor, wanted in zip(node.inputs, operator.takes(folding), strict=True):
        producer, given = network.producer(tensor), _given(network, tensor, chosen)
        if given is not None:
            total += _between(given, wanted, interval, cost)
        elif producer is not None:
            total += _before(producer, wanted, interval, cost)
    for tensor, given in zip(node.outputs, operator.gives(folding), strict=True):
        for consumer in network.consumers(tensor):
            takes = _wanted(consumer, chosen)
            total += (
                _after(consumer, given, interval, cost) if takes is None else _between(given, takes, interval, cost)
            )
    return total


def between(given: Order, wanted: Order, cost: Cost = own_cost) -> Resources:
    """What it costs that neighbours do not agree."""
    return sum((cost(operator, folding) for operator, folding in conversion(given, wanted)), Resources())


def _between(given: Order, wanted: Order, interval: int, cost: Cost) -> float:
    """The same in LUTs; infinite if it takes too long, as it may where pixels differ."""
    if given.alike(wanted):
        return 0
    cores = conversion(given, wanted) if given.pixels != wanted.pixels else ()
    if any(operator.cycles(folding) > interval for operator, folding in cores):
        return inf
    return weight(between(given, wanted, cost))


def _before(producer: tuple[Node, int], wanted: Order, interval: int, cost: Cost) -> float:
    """The cheapest a producer can be, with a gearbox if it cannot meet what is wanted."""
    operator, k = producer[0].operator, producer[1]
    candidates = operator.foldings(interval, None, wanted)
    beside = ((f, _between(operator.gives(f)[k], wanted, interval, cost)) for f in candidates)
    return _cheapest(operator, beside, cost)


def _after(consumer: tuple[Node, int], given: Order, interval: int, cost: Cost) -> float:
    """The same of a consumer."""
    operator, k = consumer[0].operator, consumer[1]
    candidates = operator.foldings(interval, given, None)
    beside = ((f, _between(given, operator.takes(f)[k], interval, cost)) for f in candidates)
    return _cheapest(operator, beside, cost)


def _cheapest(operator: Operator, candidates: Iterable[tuple[Folding, float]], cost: Cost) -> float:
    """Of a node and what it costs beside."""
    return min((weight(cost(operator, folding)) + beside for folding, beside in candidates), default=inf)


def resources_of(network: Network, foldings: dict[str, Folding], cost: Cost = own_cost) -> Resources:
    """Estimates of all nodes and of the gearboxes between them, and the pins."""
    total = _ends(network, foldings)
    for node in network.nodes:
        total += cost(node.operator, foldings[node.name])
        for tensor, wanted in zip(node.inputs, node.operator.takes(foldings[node.name]), strict=True):
            given = _given(network, tensor, foldings)
            if given is not None:
                total += between(given, wanted, cost)
    return total


def longest_interval(network: Network) -> int:
    """Cycles a frame of the slowest design: one lane everywhere."""
    return max(node.operator.cycles(node.operator.narrowest) for node in network.nodes)
