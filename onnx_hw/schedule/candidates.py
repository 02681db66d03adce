"""Alternatives at an interval: for each node its foldings, what they take and how their streams go.

The operators offer; here is only asked, and once. Nodes that multiply are asked by themselves; the others are asked to
meet the streams that those have, which are handed on from neighbour to neighbour, against the stream and along it.
What would leave others less than they need at least is left out, hence no choice that keeps the budget is lost.

Several pixels lie in a beat only where one is too slow for a node. Then those that multiply are asked for more than
they need, too, for powers of two and whole parts of a row, which may divide their work more evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from onnx_hw.ir.design import pins_of
from onnx_hw.ir.network import Network, NetworkNode
from onnx_hw.ops.folding import Folding, MultiplierKind
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.ops.stream_order import Order
from onnx_hw.ops.tensor import Tensor
from onnx_hw.schedule.budget import RESOURCES, Budget
from onnx_hw.schedule.converters import Between, Key, as_array, at_least, between, fifos, key_of, part_of
from onnx_hw.schedule.cost_model import Cost
from onnx_hw.schedule.min_cycles import least_cycles, longest_interval

NOTHING = np.zeros(len(RESOURCES), dtype=np.int64)

Streams = tuple[tuple[Order, ...], tuple[Order, ...]]
"""The orders that a folding takes, and those that it gives."""

PRODUCTS = 2
"""MAC lanes and multipliers come first of ``RESOURCES``."""


@dataclass(frozen=True)
class Alternative:
    """One folding of a node.

    Attributes:
        used: (resources,) int64: what it takes, in the order of ``RESOURCES``, pins of the outside included.
        fifos: LUTs of the FIFOs at its ends, if they are as shallow as can be: wide streams cost that much more.
        input_orders, output_orders: the orders of its streams.
    """

    folding: Folding
    used: np.ndarray
    fifos: int
    input_orders: tuple[Order, ...]
    output_orders: tuple[Order, ...]


Alternatives = dict[str, list[Alternative]]
"""Alternatives by node."""


class Offers:
    """Alternatives that the operators of a network offer, remembered from interval to interval.

    Args:
        in_logic: each folding of a node that has products is offered with products of look-up tables, too.
        caps: cycles a frame that some nodes may take at most, by name, whatever the interval is.
    """

    def __init__(
        self, network: Network, cost: Cost, *, in_logic: bool = False, caps: Mapping[str, int] | None = None
    ) -> None:
        self.network, self.in_logic, self._caps = network, in_logic, caps or {}
        self._nodes = {node.name: node for node in network.nodes}
        self._longest = longest_interval(network)
        self._cost = cost
        self._leaving = [boundary.tensor for boundary in network.outputs]
        self._known: dict[tuple[str, Folding], Alternative] = {}
        self._bounds: dict[tuple[str, Folding], np.ndarray] = {}
        self._too_wide: dict[str, dict[Folding, Streams]] = {}
        self._either: set[tuple[str, Folding]] = set()  # offered with either kind of multiplier: those with hardware's
        self._least: dict[tuple[str, bool], list[tuple[int, int, np.ndarray | None]]] = {}
        self._least_used: dict[tuple[str, int], np.ndarray | None] = {}
        self._interval, self._answers = 0, dict[tuple[str, Key | None, Key | None], tuple[Any, ...]]()

    @cached_property
    def least_cycles(self) -> tuple[int, int]:
        """See the function."""
        return least_cycles(self.network)

    @cached_property
    def multiplying(self) -> list[NetworkNode]:
        """The nodes that have lanes or multipliers."""
        return [n for n in self.network.nodes if self._alternative(n, n.operator.narrowest).used[:PRODUCTS].any()]

    def at(self, interval: int, budget: Budget) -> Alternatives | None:
        """Return the alternatives with which every node keeps up; None if a node has no such alternative, or the budget
        is too small for all.

        Args:
            budget: what the whole network may use.
        """
        allowed = allowed_by(budget)
        self._too_wide = {node.name: {} for node in self.network.nodes}
        alternatives: Alternatives = {}
        for node in self.network.nodes:
            alternatives[node.name] = self._by_itself(node, interval)
            if not alternatives[node.name]:
                return None
        multiplying = {node.name: alternatives[node.name] for node in self.network.nodes if node.operator.macs}
        products = np.where(np.isin(list(RESOURCES), ("mac_lanes", "dsp")), allowed, np.inf)  # wider ones may need less
        few = _that_leave_enough(multiplying, products)  # of the rest
        if few is None:
            return None
        alternatives |= few
        least = {name: used[:PRODUCTS] for name, used in _least_of_each(alternatives).items()}
        spare = allowed[:PRODUCTS] - sum(least.values(), NOTHING[:PRODUCTS])
        most = {name: used + spare for name, used in least.items()}
        for node in reversed(self.network.nodes):
            self._meet(alternatives, node, interval, [], self._wanted(alternatives, node), most[node.name])
        for node in self.network.nodes:
            self._meet(
                alternatives,
                node,
                interval,
                self._given(alternatives, node),
                self._wanted(alternatives, node),
                most[node.name],
            )
        return _that_leave_enough(alternatives, allowed)

    def least_used(self, node: NetworkNode, interval: int) -> np.ndarray | None:
        """Return what a node takes of each resource, if not of all at once, at least, without what lies between it and
        others: (resources,) int64; None if too slow.
        """
        key = node.name, interval
        if key not in self._least_used:
            foldings = self._by_itself(node, interval)
            self._least_used[key] = np.min([one.used for one in foldings], axis=0) if foldings else None
        return self._least_used[key]

    def largest_products(self, allowed: np.ndarray) -> list[NetworkNode]:
        """Return the nodes with products, first those whose narrowest folding is the largest part of what is allowed,
        (resources,) float64.
        """
        worth = np.maximum(allowed, 1)
        parts = {
            node.name: float((self._alternative(node, node.operator.narrowest).used / worth).max())
            for node in self.network.nodes
            if node.operator.macs
        }
        return sorted((node for node in self.network.nodes if node.name in parts), key=lambda node: -parts[node.name])

    def least(self, node: NetworkNode, interval: int) -> np.ndarray | None:
        """Return the MAC lanes and multipliers a node takes at least, asked by itself, (PRODUCTS,) int64; None if too
        slow.

        Asked anew only where the answer may be another one.
        """
        known = self._least.setdefault((node.name, interval >= self.least_cycles[1]), [])
        for first, last, used in known:
            if first <= interval <= last:
                return used
        folded = self._foldings_by_itself(node, interval)
        if not folded:
            known.append((0, interval, None))
            return None
        needs = self._that_may_be_least(node, folded)
        least = np.min([one.used[:PRODUCTS] for one in needs], axis=0)
        as_few = (node.operator.cycles(one.folding) for one in needs if (one.used[:PRODUCTS] == least).all())
        known.append((min(as_few, default=interval), interval, least))
        return np.asarray(least)

    def _that_may_be_least(self, node: NetworkNode, foldings: list[Folding]) -> list[Alternative]:
        """Return the foldings of least lanes or multipliers, and others; what takes more of both is not priced."""
        bounds = {folding: self._products_at_least(node, folding) for folding in foldings}
        alternatives: list[Alternative] = []
        least = np.full(PRODUCTS, np.iinfo(np.int64).max)
        for folding in sorted(foldings, key=lambda folding: tuple(bounds[folding])):
            if (bounds[folding] <= least).any():
                alternatives.append(self._alternative(node, folding))
                least = np.minimum(least, alternatives[-1].used[:PRODUCTS])
        return alternatives

    def between(self, given: Order, wanted: Order) -> Between:
        """Return the cost of what lies between neighbours."""
        part, alike = part_of(given, wanted)
        converters = between(self._cost, part, key_of(given), key_of(wanted))
        return replace(converters, cycles=converters.cycles * alike) if converters.cycles else converters

    def between_at_least(self, given: Order, wanted: Order) -> Between:
        """Return a lower bound of the cost between neighbours, which is found sooner."""
        return at_least(self._cost, part_of(given, wanted)[0], key_of(given), key_of(wanted))

    def fifo_of(self, order: Order) -> int:
        """Return the LUTs of a shallow FIFO for a stream."""
        return fifos(self._cost, [order])

    def in_hardware(self, name: str, one: Alternative) -> Alternative | None:
        """Return the node's alternative with equally wide streams and products in hardware multipliers, or None."""
        node, folding = self._nodes[name], replace(one.folding, multiplier=MultiplierKind.HARDWARE)  # type: ignore[call-arg]
        return self._alternative(node, folding) if (name, folding) in self._either else None

    def _meet(
        self,
        found: Alternatives,
        node: NetworkNode,
        interval: int,
        given: list[Order],
        wanted: list[Order],
        most: np.ndarray,
    ) -> None:
        """Add the foldings that meet neighbours; both at once only where each alone changes something.

        Foldings that take more than ``most``, (PRODUCTS,) float64, are not priced.
        """
        have = {one.folding for one in found[node.name]} | self._too_wide[node.name].keys()
        bare = set(have)
        entries = [order for order in given if self._new(node, interval, order, None, bare)]
        exits = [order for order in wanted if self._new(node, interval, None, order, bare)]
        for folding in self._offered(node, interval, [None, *entries], [None, *exits]):
            if folding in have:
                continue
            have.add(folding)
            if (self._products_at_least(node, folding) <= most).all():
                found[node.name].append(self._alternative(node, folding))
            else:
                operator = node.operator
                self._too_wide[node.name][folding] = operator.input_orders(folding), operator.output_orders(folding)

    def _by_itself(self, node: NetworkNode, interval: int) -> list[Alternative]:
        """Return the foldings of a node whose neighbours have not chosen."""
        return [self._alternative(node, folding) for folding in self._foldings_by_itself(node, interval)]

    def _foldings_by_itself(self, node: NetworkNode, interval: int) -> list[Folding]:
        foldings = self._offered(node, interval, [None], [None])
        fast = interval < self._longest and interval < self.least_cycles[1]  # the first is known sooner
        if foldings and node.operator.macs and fast:
            operand = node.operator.operands()[0]
            takes = (node.operator.input_orders(folding) for folding in foldings)
            least, row = min(order.pixels for orders in takes for order in orders[:1]), operand.shape[1]
            even = {pixels for pixels in range(1, row + 1) if row % pixels == 0 or pixels & (pixels - 1) == 0}
            more = {pixels for pixels in even if pixels > least}
            foldings += self._offered(node, interval, [Order(operand, 1, pixels) for pixels in sorted(more)], [None])
        return list(dict.fromkeys(foldings))

    def _new(
        self, node: NetworkNode, interval: int, given: Order | None, wanted: Order | None, have: set[Folding]
    ) -> bool:
        return any(folding not in have for folding in self._asked(node, interval, given, wanted))

    def _asked(self, node: NetworkNode, interval: int, given: Order | None, wanted: Order | None) -> tuple[Any, ...]:
        """Return what the operator offers; it is asked again for every pair of neighbours that change something."""
        if interval != self._interval:
            self._interval, self._answers = interval, {}
        key = node.name, key_of(given) if given else None, key_of(wanted) if wanted else None
        if key not in self._answers:
            cycles = min(interval, self._caps.get(node.name, interval))
            self._answers[key] = tuple(node.operator.foldings(cycles, given, wanted))
        return self._answers[key]

    def _offered(
        self, node: NetworkNode, interval: int, given: Iterable[Order | None], wanted: list[Order | None]
    ) -> list[Folding]:
        asked = (self._asked(node, interval, before, after) for before in given for after in wanted)
        offered = dict.fromkeys(folding for offer in asked for folding in offer)
        if self._cost.small_blocks and "blocks" in node.operator.folding_type.names():
            cycles = min(interval, self._caps.get(node.name, interval))
            offered |= dict.fromkeys(self._in_blocks(node, list(offered), cycles))
        if self.in_logic and "multiplier" in node.operator.folding_type.names():
            self._either.update((node.name, folding) for folding in offered)
            offered |= dict.fromkeys(replace(folding, multiplier=MultiplierKind.LOGIC) for folding in list(offered))
        return list(offered)

    def _in_blocks(self, node: NetworkNode, foldings: list[Folding], cycles: int) -> Iterator[Folding]:
        """Yield, for each folding, that with memories in the fewest block RAMs, if it costs something else."""
        for folding in foldings:
            fewest = in_fewest_blocks(node.operator, folding, cycles, self._cost)
            if fewest is not None and self._cost(node.operator, fewest) != self._cost(node.operator, folding):
                yield fewest

    def _products_at_least(self, node: NetworkNode, folding: Folding) -> np.ndarray:
        """Return the lanes and multipliers at least, (PRODUCTS,) int64, without pricing all resources."""
        key = node.name, folding
        if key in self._known:
            return self._known[key].used[:PRODUCTS]
        if key not in self._bounds:
            lanes = node.operator.lanes(folding)
            self._bounds[key] = np.array([lanes, self._cost.at_least(node.operator, folding).dsp])
        return self._bounds[key]

    def _alternative(self, node: NetworkNode, folding: Folding) -> Alternative:
        key = node.name, folding
        if key not in self._known:
            operator = node.operator
            takes, gives = operator.input_orders(folding), operator.output_orders(folding)
            used = as_array(self._cost(operator, folding))
            ends = [order for tensor, order in zip(node.inputs, takes, strict=True) if not self._made(tensor)]
            ends += [order for tensor, order in zip(node.outputs, gives, strict=True) if tensor in self._leaving]
            used += as_array(Resources(pins=sum(map(pins_of, ends))))
            self._known[key] = Alternative(folding, used, fifos(self._cost, gives), takes, gives)
        return self._known[key]

    def _made(self, tensor: str) -> bool:
        return self.network.producer(tensor) is not None

    def _streams(self, found: Alternatives, node: NetworkNode) -> Iterator[Streams]:
        """Yield the orders that others may meet: foldings that meet what is too wide may do well by others, too."""
        yield from ((one.input_orders, one.output_orders) for one in found[node.name])
        yield from self._too_wide[node.name].values()

    def _given(self, found: Alternatives, node: NetworkNode) -> list[Order]:
        """Return the orders that makers give; from outside, those that may be as wide as what the node gives itself."""
        makers = (self.network.producer(tensor) for tensor in node.inputs)
        orders = [gives[k] for maker, k in filter(None, makers) for _, gives in self._streams(found, maker)]
        if not all(map(self._made, node.inputs)):
            own = [order for _, gives in self._streams(found, node) for order in gives]
            orders += [order for tensor in node.operator.operands() for order in _as_wide(tensor, own)]
        return _different(orders)

    def _wanted(self, found: Alternatives, node: NetworkNode) -> list[Order]:
        """Return the orders that readers take; outside, those that may be as wide as what the node takes itself."""
        readers = (reader for tensor in node.outputs for reader in self.network.consumers(tensor))
        orders = [takes[k] for reader, k in readers for takes, _ in self._streams(found, reader)]
        if any(tensor in self._leaving for tensor in node.outputs):
            own = [order for takes, _ in self._streams(found, node) for order in takes]
            orders += [order for tensor in node.operator.results() for order in _as_wide(tensor, own)]
        return _different(orders)


def in_fewest_blocks(operator: Operator[Any], folding: Folding, cycles: int, cost: Cost) -> Folding | None:
    """Return the folding with memories in block RAM, the fewest ones, that takes at most some cycles, and of these the
    quickest; None without any.
    """
    return min(operator.in_blocks(folding, cycles), key=lambda one: cost(operator, one).bram, default=None)


def allowed_by(budget: Budget) -> np.ndarray:
    """Return a budget as (resources,) float64: infinity where there is no bound."""
    bounds = (getattr(budget, field) for field in RESOURCES)
    return np.array([np.inf if bound is None else bound for bound in bounds])


def _as_wide(tensor: Tensor, orders: list[Order]) -> Iterator[Order]:
    """Return the orders of a tensor with the lanes and pixels of these of others, where it has them."""
    for lanes, pixels in dict.fromkeys((order.lanes, order.pixels) for order in orders):
        if lanes <= tensor.channels and pixels <= tensor.shape[1]:
            yield Order(tensor, lanes, pixels)


def _different(orders: Iterable[Order]) -> list[Order]:
    return list({key_of(order): order for order in orders}.values())


def _that_leave_enough(found: Alternatives, allowed: np.ndarray) -> Alternatives | None:
    """Return the alternatives that leave all others what they need at least; None where no choice does."""
    least = _least_of_each(found)
    room = allowed - sum(least.values(), NOTHING)
    if (room < 0).any():
        return None
    few = {name: [one for one in found[name] if (one.used - least[name] <= room).all()] for name in found}
    enough = all(few.values()) and (sum(_least_of_each(few).values(), NOTHING) <= allowed).all()
    return few if enough else None


def _least_of_each(found: Alternatives) -> dict[str, np.ndarray]:
    """Return, by node, what it needs of each resource, if not of all at once: (resources,) int64."""
    return {name: np.min([one.used for one in alternatives], axis=0) for name, alternatives in found.items()}
