"""What there is to choose from at an interval: for each node its foldings, what they take and how their streams go.

The operators offer; here is only asked, and once. Nodes that multiply are asked by themselves; the others are asked to
meet the streams that those have, which are handed on from neighbour to neighbour, against the stream and along it.
What would leave others less than they need at least is left out, hence no choice that keeps the budget is lost.

Several pixels lie in a beat only where one is too slow for a node. Then those that multiply are asked for more than
they need, too, for powers of two and whole parts of a row, which may divide their work more evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from onnx_hw.design import pins_of
from onnx_hw.network import Network, Node
from onnx_hw.ops.conversion import conversion
from onnx_hw.ops.folding import Folding, Multiplier
from onnx_hw.ops.operator import Operator, Resources
from onnx_hw.order import Order
from onnx_hw.passes.budget import RESOURCES, Budget
from onnx_hw.passes.cost import Cost
from onnx_hw.passes.least_cycles import least_cycles
from onnx_hw.tensor import Tensor

SHALLOW = 2
"""Tokens of a FIFO that holds up nobody for long: the depth is chosen later."""

NOTHING = np.zeros(len(RESOURCES), dtype=np.int64)

Key = tuple[int, int, int, int]
"""Of an order, on a tensor that is known: its lanes, pixels, tile, times."""


@dataclass(frozen=True)
class Alternative:
    """One folding of a node.

    Attributes:
        used: (resources,) int64: what it takes, in the order of ``RESOURCES``, pins of the outside included.
        fifos: LUTs of the FIFOs at its ends, if they are as shallow as can be: wide streams cost that much more.
        takes, gives: the orders of its streams.
    """

    folding: Folding
    used: np.ndarray
    fifos: int
    takes: tuple[Order, ...]
    gives: tuple[Order, ...]


@dataclass(frozen=True)
class Between:
    """The cores between neighbours that do not agree.

    Attributes:
        used, fifos: see ``Alternative``.
        cycles: of the slowest that is slower than both neighbours; else 0.
    """

    used: np.ndarray
    fifos: int
    cycles: int


Alternatives = dict[str, list[Alternative]]
"""By node."""


class Offers:
    """What the operators of a network offer, remembered from interval to interval.

    Args:
        in_logic: each folding of a node that has products is offered with products of look-up tables, too.
    """

    def __init__(self, network: Network, cost: Cost, *, in_logic: bool = False) -> None:
        self.network, self.in_logic = network, in_logic
        self._cost = cost
        self._leaving = [boundary.tensor for boundary in network.outputs]
        self._known: dict[tuple[str, Folding], Alternative] = {}
        self._either: set[tuple[str, Folding]] = set()  # offered with either kind of multiplier: those with hardware's
        self._least: dict[tuple[str, bool], list[tuple[int, int, np.ndarray | None]]] = {}
        self._interval, self._answers = 0, dict[tuple[str, Key | None, Key | None], tuple[Any, ...]]()

    @cached_property
    def least_cycles(self) -> tuple[int, int]:
        """See the function."""
        return least_cycles(self.network)

    @cached_property
    def multiplying(self) -> list[Node]:
        """The nodes that have lanes or multipliers."""
        return [n for n in self.network.nodes if self._alternative(n, n.operator.narrowest).used[:2].any()]

    def at(self, interval: int, budget: Budget) -> Alternatives | None:
        """The alternatives with which every node keeps up; None if there are none, or the budget is too small for all.

        Args:
            budget: what the whole network may use.
        """
        allowed = allowed_by(budget)
        found: Alternatives = {}
        for node in self.network.nodes:
            found[node.name] = self._by_itself(node, interval)
            if not found[node.name]:
                return None
        multiplying = {node.name: found[node.name] for node in self.network.nodes if node.operator.macs}
        products = np.where(np.isin(list(RESOURCES), ("mac_lanes", "dsp")), allowed, np.inf)  # wider ones may need less
        few = _that_leave_enough(multiplying, products)  # of the rest
        if few is None:
            return None
        found |= few
        for node in reversed(self.network.nodes):
            self._meet(found, node, interval, [], self._wanted(found, node))
        for node in self.network.nodes:
            self._meet(found, node, interval, self._given(found, node), self._wanted(found, node))
        return _that_leave_enough(found, allowed)

    def least_by_themselves(self, interval: int) -> np.ndarray:
        """(resources,) int64: what nodes take at least, each asked by itself, without what lies between them."""
        found = {node.name: self._by_itself(node, interval) for node in self.network.nodes}
        least = _least_of_each({name: some for name, some in found.items() if some})
        return np.asarray(sum(least.values(), NOTHING))

    def least(self, node: Node, interval: int) -> np.ndarray | None:
        """(2,) int64: the MAC lanes and multipliers that a node takes at least, asked by itself; None if too slow.

        Asked anew only where the answer may be another one.
        """
        known = self._least.setdefault((node.name, interval >= self.least_cycles[1]), [])
        for first, last, used in known:
            if first <= interval <= last:
                return used
        needs = [(one.used[:2], one.folding) for one in self._by_itself(node, interval)]
        if not needs:
            known.append((0, interval, None))
            return None
        least = np.min([need for need, _ in needs], axis=0)
        as_few = (node.operator.cycles(folding) for need, folding in needs if (need == least).all())
        known.append((min(as_few, default=interval), interval, least))
        return np.asarray(least)

    def between(self, given: Order, wanted: Order) -> Between:
        """What lies between neighbours."""
        part, alike = _part_of(given, wanted)
        found = _between(self._cost, part, key_of(given), key_of(wanted))
        return replace(found, cycles=found.cycles * alike) if found.cycles else found

    def between_at_least(self, given: Order, wanted: Order) -> Between:
        """No more than what lies between neighbours, found sooner."""
        return _at_least(self._cost, _part_of(given, wanted)[0], key_of(given), key_of(wanted))

    def fifo_of(self, order: Order) -> int:
        """LUTs of a shallow FIFO for a stream."""
        return _fifos(self._cost, [order])

    def in_hardware(self, name: str, one: Alternative) -> Alternative | None:
        """The same node with as wide streams, whose products are the chip's multipliers'; None if none is offered."""
        key = name, replace(one.folding, multiplier=Multiplier.HARDWARE)  # type: ignore[call-arg]
        return self._known[key] if key in self._either else None

    def _meet(self, found: Alternatives, node: Node, interval: int, given: list[Order], wanted: list[Order]) -> None:
        """Add the foldings that meet neighbours; both at once only where each alone changes something."""
        have = {one.folding for one in found[node.name]}
        bare = set(have)
        entries = [order for order in given if self._new(node, interval, order, None, bare)]
        exits = [order for order in wanted if self._new(node, interval, None, order, bare)]
        for one in self._offered(node, interval, [None, *entries], [None, *exits]):
            if one.folding not in have:
                have.add(one.folding)
                found[node.name].append(one)

    def _by_itself(self, node: Node, interval: int) -> list[Alternative]:
        """The foldings of a node whose neighbours have not chosen."""
        found = self._offered(node, interval, [None], [None])
        if found and node.operator.macs and interval < self.least_cycles[1]:
            operand = node.operator.operands()[0]
            least, row = min(order.pixels for one in found for order in one.takes[:1]), operand.shape[1]
            even = {pixels for pixels in range(1, row + 1) if row % pixels == 0 or pixels & (pixels - 1) == 0}
            more = {pixels for pixels in even if pixels > least}
            found += self._offered(node, interval, [Order(operand, 1, pixels) for pixels in sorted(more)], [None])
        return list({one.folding: one for one in found}.values())

    def _new(self, node: Node, interval: int, given: Order | None, wanted: Order | None, have: set[Folding]) -> bool:
        return any(folding not in have for folding in self._asked(node, interval, given, wanted))

    def _asked(self, node: Node, interval: int, given: Order | None, wanted: Order | None) -> tuple[Any, ...]:
        """What the operator offers; it is asked again for every pair of neighbours that change something."""
        if interval != self._interval:
            self._interval, self._answers = interval, {}
        key = node.name, key_of(given) if given else None, key_of(wanted) if wanted else None
        if key not in self._answers:
            self._answers[key] = tuple(node.operator.foldings(interval, given, wanted))
        return self._answers[key]

    def _offered(
        self, node: Node, interval: int, given: Iterable[Order | None], wanted: list[Order | None]
    ) -> list[Alternative]:
        asked = (self._asked(node, interval, before, after) for before in given for after in wanted)
        offered = dict.fromkeys(folding for offer in asked for folding in offer)
        if self.in_logic and "multiplier" in node.operator.folding_type.names():
            self._either.update((node.name, folding) for folding in offered)
            offered |= dict.fromkeys(replace(folding, multiplier=Multiplier.LOGIC) for folding in list(offered))
        return [self._alternative(node, folding) for folding in offered]

    def _alternative(self, node: Node, folding: Folding) -> Alternative:
        key = node.name, folding
        if key not in self._known:
            operator = node.operator
            takes, gives = operator.takes(folding), operator.gives(folding)
            used = as_array(self._cost(operator, folding))
            ends = [order for tensor, order in zip(node.inputs, takes, strict=True) if not self._made(tensor)]
            ends += [order for tensor, order in zip(node.outputs, gives, strict=True) if tensor in self._leaving]
            used += as_array(Resources(pins=sum(map(pins_of, ends))))
            self._known[key] = Alternative(folding, used, _fifos(self._cost, gives), takes, gives)
        return self._known[key]

    def _made(self, tensor: str) -> bool:
        return self.network.producer(tensor) is not None

    def _given(self, found: Alternatives, node: Node) -> list[Order]:
        """What makers give; and from outside, what may be as wide as what the node gives itself."""
        makers = (self.network.producer(tensor) for tensor in node.inputs)
        orders = [one.gives[k] for maker, k in filter(None, makers) for one in found[maker.name]]
        if not all(map(self._made, node.inputs)):
            own = [order for one in found[node.name] for order in one.gives]
            orders += [order for tensor in node.operator.operands() for order in _as_wide(tensor, own)]
        return _different(orders)

    def _wanted(self, found: Alternatives, node: Node) -> list[Order]:
        """What readers take; and outside, what may be as wide as what the node takes itself."""
        readers = (reader for tensor in node.outputs for reader in self.network.consumers(tensor))
        orders = [one.takes[k] for reader, k in readers for one in found[reader.name]]
        if any(tensor in self._leaving for tensor in node.outputs):
            own = [order for one in found[node.name] for order in one.takes]
            orders += [order for tensor in node.operator.results() for order in _as_wide(tensor, own)]
        return _different(orders)


def key_of(order: Order) -> Key:
    """Orders of a tensor with one key are alike."""
    return order.lanes, order.pixels, order.tile, order.times


def as_array(used: Resources) -> np.ndarray:
    """(resources,) int64."""
    return np.array([getattr(used, field) for field in RESOURCES], dtype=np.int64)


def allowed_by(budget: Budget) -> np.ndarray:
    """(resources,) float64: infinity where there is no bound."""
    bounds = (getattr(budget, field) for field in RESOURCES)
    return np.array([np.inf if bound is None else bound for bound in bounds])


def _part_of(given: Order, wanted: Order) -> tuple[Tensor, int]:
    """The smallest tensor between whose orders the same lies, and how often it passes in a frame: rows are alike, and
    groups of pixels where their number stays.
    """
    rows, columns, channels = given.tensor.shape
    alike = 1
    if given.tile == given.pixels and wanted.tile == wanted.pixels:
        alike, columns = rows, columns if given.pixels != wanted.pixels else given.pixels
    return Tensor((rows // alike, columns, channels), given.tensor.dtype), alike


@lru_cache(maxsize=1 << 16)
def _at_least(cost: Cost, tensor: Tensor, given: Key, wanted: Key) -> Between:
    """See ``_between``."""
    cores = list(conversion(Order(tensor, *given), Order(tensor, *wanted)))
    used = sum((cost.at_least(operator, folding) for operator, folding in cores), Resources())
    return Between(as_array(used), _fifos(cost, [o for core, folding in cores for o in core.gives(folding)]), 0)


@lru_cache(maxsize=1 << 16)
def _between(cost: Cost, tensor: Tensor, given: Key, wanted: Key) -> Between:
    """Many tensors of a network are alike, and what is asked of it again and again."""
    before, after = Order(tensor, *given), Order(tensor, *wanted)
    cores = list(conversion(before, after))
    used = sum((_core(cost, operator, folding) for operator, folding in cores), Resources())
    cycles = 0
    if max(before.pixels, after.pixels) % min(before.pixels, after.pixels):  # else no slower than both ends
        cycles = max(operator.cycles(folding) for operator, folding in cores)
    fifos = _fifos(cost, [order for operator, folding in cores for order in operator.gives(folding)])
    return Between(as_array(used), fifos, cycles)


@lru_cache(maxsize=1 << 16)
def _core(cost: Cost, operator: Operator[Any], folding: Folding) -> Resources:
    """One that lies between many pairs of neighbours."""
    return cost(operator, folding)


def _fifos(cost: Cost, orders: Iterable[Order]) -> int:
    """LUTs of a FIFO for each of these streams."""
    return sum(_fifo(cost, order.width * order.tensor.dtype.bits) for order in orders)


@lru_cache(maxsize=1 << 12)
def _fifo(cost: Cost, bits: int) -> int:
    return cost.of_fifo(bits, SHALLOW).lut


def _as_wide(tensor: Tensor, orders: list[Order]) -> Iterator[Order]:
    """Orders of a tensor with as many lanes and pixels as these of others, where it has them."""
    for lanes, pixels in dict.fromkeys((order.lanes, order.pixels) for order in orders):
        if lanes <= tensor.channels and pixels <= tensor.shape[1]:
            yield Order(tensor, lanes, pixels)


def _different(orders: Iterable[Order]) -> list[Order]:
    return list({key_of(order): order for order in orders}.values())


def _that_leave_enough(found: Alternatives, allowed: np.ndarray) -> Alternatives | None:
    """Those with which all others still find what they need at least; None if there is too little in any case."""
    least = _least_of_each(found)
    room = allowed - sum(least.values(), NOTHING)
    if (room < 0).any():
        return None
    few = {name: [one for one in found[name] if (one.used - least[name] <= room).all()] for name in found}
    enough = all(few.values()) and (sum(_least_of_each(few).values(), NOTHING) <= allowed).all()
    return few if enough else None


def _least_of_each(found: Alternatives) -> dict[str, np.ndarray]:
    """By node, (resources,) int64: what it needs of each, if not of all at once."""
    return {name: np.min([one.used for one in alternatives], axis=0) for name, alternatives in found.items()}
