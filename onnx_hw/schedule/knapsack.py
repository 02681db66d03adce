"""One alternative of each node, the cheapest of all at given prices: a multiple-choice knapsack with neighbours.

Dynamic programming over the nodes in their order. What is still open is the order of every tensor that has been made
and not yet been read, and how much of the one scarce resource is left: a table with an axis for each. On a chain that
is one order, in a residual network two or three. Where many branches are open at once, the table would be too large:
this is known before it is made, and some nodes at a time keep an alternative (``coordinate_descent``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from onnx_hw.ir.network import NetworkNode
from onnx_hw.ops.stream_order import Order
from onnx_hw.schedule.candidates import Alternative, Alternatives, Offers
from onnx_hw.schedule.converters import key_of
from onnx_hw.schedule.coordinate_descent import Solution, Subproblems, Subset, TableSize, descend
from onnx_hw.schedule.cost_table import MAX_TABLE_ENTRIES, TAKEN, Axis, CostTable
from onnx_hw.schedule.edge_costs import Neighbours

MAX_SIZE = TableSize(largest=16 << 20, remembered=128 << 20)
"""Size of the tables of a problem that is solved at once."""


@dataclass(frozen=True)
class Selection:
    """Alternatives of all nodes, chosen together.

    Attributes:
        chosen: one alternative of each node.
        used: (resources,) int64: what they take, with what stands between them.
        price: their price, with that of their FIFOs.
        exact: whether there is surely none cheaper.
    """

    chosen: dict[str, Alternative]
    used: np.ndarray
    price: float
    exact: bool


class _Scarcity:
    """Bound on what a choice takes of one resource.

    Attributes:
        extra: (alternatives,) int64 by node: what each takes, beyond what the node needs at least.
        room: the greatest sum of it.
        previous: the last choice within the bound.
    """

    def __init__(self, extra: dict[str, np.ndarray], room: int) -> None:
        self.extra, self.room = extra, room
        self.previous: Subset | None = None

    @classmethod
    def without_bound(cls, extra: dict[str, np.ndarray]) -> _Scarcity:
        """Return the bound that every choice keeps."""
        return cls({name: np.zeros_like(some) for name, some in extra.items()}, 0)

    def is_kept(self, picked: Subset) -> bool:
        """Return whether a choice, (1,) int64 by node, keeps the bound."""
        return sum(int(self.extra[name][k[0]]) for name, k in picked.items()) <= self.room


class CheapestOfEach:
    """The problem at one interval, to be solved for several prices.

    Args:
        scarce: index in ``RESOURCES`` of the resource that must not be exceeded.
        room: amount of it that there is.
    """

    def __init__(self, offers: Offers, alternatives: Alternatives, interval: int, scarce: int, room: float) -> None:
        self._network = offers.network
        self._alternatives = alternatives
        amounts = {name: np.array([one.used[scarce] for one in some]) for name, some in alternatives.items()}
        extra = {name: some - some.min() for name, some in amounts.items()}
        most = sum(int(some.max()) for some in extra.values())
        least = int(min(most, room - sum(int(some.min()) for some in amounts.values())))
        self._free = _Scarcity.without_bound(extra)
        self._bounded = self._free if least == most else _Scarcity(extra, least)
        self._given = {
            tensor: _Classes([one.output_orders[k] for one in alternatives[node.name]])
            for node in offers.network.nodes
            for k, tensor in enumerate(node.outputs)
        }
        self._taken = {
            (node.name, k): _Classes([one.input_orders[k] for one in alternatives[node.name]])
            for node in offers.network.nodes
            for k in range(len(node.inputs))
        }
        self._edges = {
            (node.name, k): Neighbours(
                offers, self._given[node.inputs[k]].orders, self._taken[node.name, k].orders, interval
            )
            for node in offers.network.nodes
            for k in self._ports(node)
        }
        self._axes = dict(self._axes_of_outputs())
        self._last = {
            self._axes[node.inputs[k]]: (node.name, k) for node in offers.network.nodes for k in self._ports(node)
        }

    def at(self, prices: np.ndarray, fifos: float, beyond: float = np.inf) -> Selection | None:
        """Return the cheapest choice, or a cheap one where the table would be too large; None if neighbours do not come
        together.

        The table without the bound is smaller by that axis, and its choice mostly keeps the bound: then no other that
        does is cheaper.

        Args:
            prices: (resources,) float64.
            fifos: price of a LUT of the FIFOs between cores.
            beyond: a price; where all choices surely cost more, the one returned may exceed the bound.
        """
        solution = None
        if self._bounded.room > 0:
            solution = self._cheapest(self._free, prices, fifos)
            if solution is None:
                return None
            price, picked, exact = solution
            if not (self._bounded.is_kept(picked) or (exact and price > beyond)):
                solution = None
        if solution is None:
            solution = self._cheapest(self._bounded, prices, fifos)
        if solution is None:
            return None
        price, picked, exact = solution
        chosen = {name: self._alternatives[name][int(k[0])] for name, k in picked.items()}
        used = sum((one.used for one in chosen.values()), np.zeros(len(prices), dtype=np.int64))
        for node in self._network.nodes:
            for k in self._ports(node):
                maker, _ = self._axes[node.inputs[k]]
                given = self._given[node.inputs[k]].of[picked[maker]]
                used = used + self._edges[node.name, k].used[given, self._taken[node.name, k].of[picked[node.name]]][0]
        return Selection(chosen, used, price, exact)

    def _cheapest(self, bound: _Scarcity, prices: np.ndarray, fifos: float) -> Solution | None:
        """Return the cheapest choice within a bound, or a cheap one; None if there is no choice."""

        def solve(subset: Subset, limit: int) -> Solution | None:
            return self._solved(subset, limit, prices, fifos, bound)

        def size(subset: Subset) -> TableSize:
            return self._size(subset, bound.room)

        problems = Subproblems(self._all, self._branches, size, MAX_SIZE)
        solution = descend(problems, solve, bound.previous, MAX_TABLE_ENTRIES)
        if solution is not None:
            bound.previous = solution[1]
        return solution

    def _solved(
        self, subset: Subset, limit: int, prices: np.ndarray, fifos: float, bound: _Scarcity
    ) -> Solution | None:
        """Return the price, the alternatives and whether they are exact, where only a subset of the alternatives of
        each node may be chosen; None if they do not come together.
        """
        table = CostTable(bound.room, limit)
        for node in self._network.nodes:
            some, taken = subset[node.name], (node.name, TAKEN)
            table.begin(taken)
            ways = np.zeros(len(some), dtype=np.int64)
            for k, earlier, classes, ways in self._entries(node, some):  # noqa: B007
                axis = self._axes[node.inputs[k]]
                costs = self._edges[node.name, k].at(prices, fifos)
                table.join(axis, taken, earlier, classes, costs, self._last[axis] == (node.name, k))
            gives = {
                self._axes[tensor]: self._given[tensor].of[some] for tensor in node.outputs if tensor in self._axes
            }
            alternatives = [self._alternatives[node.name][k] for k in some]
            own = np.array([one.used @ prices + one.fifos * fifos for one in alternatives])
            table.choose(taken, ways, gives, own, bound.extra[node.name][some])
            table.narrow()
            if not np.isfinite(table.prices).any():
                return None
        picked = {name: subset[name][[k]] for name, k in table.back().items()}
        return float(table.prices[..., -1].min()), picked, table.exact

    def _entries(self, node: NetworkNode, some: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield, for each input that a node makes: its number; the different ways in which alternatives take it and
        those before it, as (the way in which they take those before, the class of this one); and, for each alternative,
        its way.
        """
        ways = np.zeros(len(some), dtype=np.int64)
        for k in self._ports(node):
            pairs = np.stack([ways, self._taken[node.name, k].of[some]])
            different, ways = np.unique(pairs, axis=1, return_inverse=True)
            ways = ways.reshape(-1)
            yield k, different[0], different[1], ways

    def _size(self, subset: Subset, room: int) -> TableSize:
        """Return how large the tables are if each node may choose one alternative, or among all."""
        open_axes: dict[Axis, int] = {}
        largest = remembered = 0
        for node in self._network.nodes:
            ways, some = 1, subset[node.name]
            for k in self._ports(node):
                axis, ways = self._axes[node.inputs[k]], 1 if len(some) == 1 else self._ways[node.name, k]
                if self._last[axis] == (node.name, k):
                    del open_axes[axis]
                size = prod(open_axes.values()) * ways * (room + 1)
                largest, remembered = max(largest, size), remembered + size
            for tensor in node.outputs:
                if tensor in self._axes:
                    open_axes[self._axes[tensor]] = 1 if len(some) == 1 else len(self._given[tensor].orders)
            largest = max(largest, prod(open_axes.values()) * (room + 1))
            while (size := prod(open_axes.values()) * (room + 1)) > MAX_TABLE_ENTRIES and open_axes:
                widest = max(open_axes, key=lambda axis: open_axes[axis])
                if open_axes[widest] == 1:
                    break
                open_axes[widest] = -(-open_axes[widest] // 2)
            remembered += size
        return TableSize(largest, remembered)

    @cached_property
    def _ways(self) -> dict[tuple[str, int], int]:
        """The number of ways in which a node takes its inputs up to one."""
        nodes = self._network.nodes
        return {
            (node.name, k): len(classes)
            for node in nodes
            for k, _, classes, _ in self._entries(node, self._all[node.name])
        }

    @cached_property
    def _all(self) -> Subset:
        return {name: np.arange(len(some)) for name, some in self._alternatives.items()}

    def _ports(self, node: NetworkNode) -> Sequence[int]:
        """Return the inputs of a node that nodes before it make; what leads back costs nothing here."""
        back = self._network.fed_back
        return [k for k, tensor in enumerate(node.inputs) if tensor in self._given and (node.name, k) not in back]

    def _axes_of_outputs(self) -> Iterator[tuple[str, Axis]]:
        """Yield each tensor that is read, and its axis: outputs of equal classes in each alternative have one."""
        for node in self._network.nodes:
            different: dict[bytes, Axis] = {}
            for tensor in node.outputs:
                if any((reader.name, k) not in self._network.fed_back for reader, k in self._network.consumers(tensor)):
                    yield tensor, different.setdefault(self._given[tensor].of.tobytes(), (node.name, tensor))

    @cached_property
    def _branches(self) -> list[str]:
        """Return the nodes whose outputs stay open beyond the next node."""
        places = {node.name: k for k, node in enumerate(self._network.nodes)}
        last: Mapping[Axis, str] = {axis: reader for axis, (reader, _) in self._last.items()}
        far = {maker for (maker, _), reader in last.items() if places[reader] > places[maker] + 1}
        return [node.name for node in self._network.nodes if node.name in far]


class _Classes:
    """Orders that are alike, as one: the different ones, and (alternatives,) int64, the class of each."""

    def __init__(self, orders: Sequence[Order]) -> None:
        different = {key_of(order): order for order in orders}
        numbers = {key: number for number, key in enumerate(different)}
        self.orders = tuple(different.values())
        self.of = np.array([numbers[key_of(order)] for order in orders])
