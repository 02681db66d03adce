"""Choose how wide every node is: the least interval whose circuit fits the budget.

Which foldings there are and what they cost, the operators say; a ``Search`` asks them. Any other one will do as well:
what it finds is verified, and the proof does not care.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from onnx_hw.network import Network, Node
from onnx_hw.ops.folding import Folding
from onnx_hw.passes.budget import Budget
from onnx_hw.passes.cost import Cost
from onnx_hw.passes.cost import cost as own_cost
from onnx_hw.passes.fold_for_interval import fold_for, longest_interval, resources_of

Foldings = dict[str, Folding]


def least_interval(network: Network) -> tuple[int, Node]:
    """Cycles a frame of the fastest folding there is, whatever it takes, and the node that needs them."""
    several, at_one_pixel = _bounds(network)
    found = fold_for(network, at_one_pixel)
    assert found is not None, "every node runs at this interval"
    found = _below(lambda interval: fold_for(network, interval), several, at_one_pixel, found)
    cycles = {node.name: node.operator.cycles(found[node.name]) for node in network.nodes}
    return max(((cycles[node.name], node) for node in network.nodes), key=lambda pair: pair[0])


def _bounds(network: Network) -> tuple[int, int]:
    """Cycles below which a node has no folding; and below which it has none with one pixel a beat."""
    several, one = zip(*(_least_cycles(node) for node in network.nodes), strict=True)
    return max(several), max(one)


def _least_cycles(node: Node) -> tuple[int, int]:
    def first_pixels(interval: int) -> int:
        """Most pixels of a beat in the first folding; 0 if there is none."""
        operator = node.operator
        folding = next(operator.foldings(interval), None)
        if folding is None:
            return 0
        return max(order.pixels for order in (*operator.takes(folding), *operator.gives(folding)))

    slowest = node.operator.cycles(node.operator.narrowest)
    one = bisect_left(range(slowest), True, 1, key=lambda interval: first_pixels(interval) == 1)
    return bisect_left(range(one), True, 1, key=lambda interval: first_pixels(interval) > 0), one


def choose_folding(network: Network, budget: Budget, from_interval: int = 0, cost: Cost = own_cost) -> Foldings | None:
    """The foldings of the least interval, ``from_interval`` or more, that fits, by bisection; None if nothing fits.

    Among intervals, fewer cycles never need less hardware except by luck of rounding, so bisection finds the least
    interval up to that luck. Where one pixel a beat is what bounds it and there is room left, several are tried.
    """

    def fits(interval: int) -> Foldings | None:
        return _within(network, budget, interval, cost)

    least, at_one_pixel = _bounds(network)
    longest = longest_interval(network)
    low = high = min(max(from_interval, at_one_pixel), longest)
    best = fits(high)
    if best is not None:
        return _below(fits, max(from_interval, least), high, best)
    while best is None and high < longest:
        low, high = high, min(2 * high, longest)
        best = fits(high)
    return best and _between(fits, low, high, best)


def _below(fits: Callable[[int], Foldings | None], least: int, interval: int, best: Foldings) -> Foldings:
    """Of the shortest interval that fits, down to ``least``, by halves, then by bisection; ``interval`` does."""
    while interval > least:
        shorter = max(interval // 2, least)
        found = fits(shorter)
        if found is None:
            return _between(fits, shorter, interval, best)
        interval, best = shorter, found
    return best


def _between(fits: Callable[[int], Foldings | None], low: int, high: int, best: Foldings) -> Foldings:
    """Of the shortest interval that fits; ``low`` does not, ``high`` does with ``best``."""
    while high - low > 1:
        middle = (low + high) // 2
        found = fits(middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best


def cheapest_folding(network: Network, budget: Budget, interval: int, cost: Cost = own_cost) -> Foldings | None:
    """The foldings of the longest interval, at most ``interval`` cycles, that fits; None if nothing does.

    A slower design is a cheaper one but for the same luck, which is tried down to half the interval.
    """
    several, at_one_pixel = _bounds(network)
    least = at_one_pixel if interval >= at_one_pixel else several
    for sixteenths in range(16, 7, -1):
        shorter = interval * sixteenths // 16
        found = _within(network, budget, shorter, cost) if shorter >= least else None
        if found is not None:
            return found
    return None


def _within(network: Network, budget: Budget, interval: int, cost: Cost) -> Foldings | None:
    foldings = fold_for(network, interval, budget.pins, cost)
    if foldings is None or budget.excess(resources_of(network, foldings, cost)):
        return None
    return foldings


@dataclass(frozen=True)
class Search:
    """How foldings are found.

    Attributes:
        fastest: of the shortest interval that fits a budget, no shorter than so many cycles; None if nothing fits.
        cheapest: of one that takes at most so many cycles, as cheap as can be; None if nothing fits.
    """

    fastest: Callable[[Network, Budget, int, Cost], Foldings | None] = choose_folding
    cheapest: Callable[[Network, Budget, int, Cost], Foldings | None] = cheapest_folding
