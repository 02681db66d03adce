"""One alternative of each node, the cheapest of all at given prices: a multiple-choice knapsack with neighbours.

Dynamic programming over the nodes in their order. What is still open is the order of every tensor that has been made
and not yet been read, and how much of the one scarce resource is left: a table with an axis for each. On a chain that
is one order, in a residual network two or three. A table that grows too large is cut to its most promising orders; what
comes out is then a choice, but no proof that it is the cheapest one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_hw.ir.network import NetworkNode
from onnx_hw.ops.stream_order import Order
from onnx_hw.schedule.candidates import Alternative, Alternatives, Offers
from onnx_hw.schedule.converters import key_of
from onnx_hw.schedule.cost_table import Axis, CostTable
from onnx_hw.schedule.edge_costs import Neighbours


@dataclass(frozen=True)
class Selection:
    """Attributes:
    chosen: an alternative of each node.
    used: (resources,) int64: what they take, with what stands between them.
    price: of it, with that of its FIFOs.
    exact: whether there is surely none cheaper.
    """

    chosen: dict[str, Alternative]
    used: np.ndarray
    price: float
    exact: bool


class CheapestOfEach:
    """The problem at one interval, to be solved for several prices."""

    def __init__(self, offers: Offers, alternatives: Alternatives, interval: int, scarce: int, room: float) -> None:
        """
        Args:
            scarce: the index in ``RESOURCES`` of what must not be exceeded.
            room: so much of it there is.
        """
        self._network = offers.network
        self._alternatives = alternatives
        amounts = {name: np.array([one.used[scarce] for one in some]) for name, some in alternatives.items()}
        self._extra = {name: some - some.min() for name, some in amounts.items()}
        most = sum(int(some.max()) for some in self._extra.values())
        self._room = int(min(most, room - sum(int(some.min()) for some in amounts.values())))
        if self._room == most:  # there is enough of it for every choice
            self._extra, self._room = {name: np.zeros_like(some) for name, some in amounts.items()}, 0
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
            (node.name, k): Neighbours(offers, self._given[tensor].orders, self._taken[node.name, k].orders, interval)
            for node in offers.network.nodes
            for k, tensor in enumerate(node.inputs)
            if tensor in self._given
        }

    def at(self, prices: np.ndarray, fifos: float) -> Selection | None:
        """Return the cheapest choice; None if neighbours do not come together.

        Args:
            prices: (resources,) float64.
            fifos: of a LUT of the FIFOs between cores.
        """
        table = CostTable(np.zeros(self._room + 1))
        for node in self._network.nodes:
            self._step(table, node, prices, fifos)
            if not np.isfinite(table.prices).any():
                return None
        price = float(table.prices[..., -1].min())
        picked, taken = table.back(self._room)
        chosen = {name: self._alternatives[name][k] for name, k in picked.items()}
        used = sum((one.used for one in chosen.values()), np.zeros(len(prices), dtype=np.int64))
        for node in self._network.nodes:
            for k, tensor in enumerate(node.inputs):
                if tensor in self._given:
                    used = used + self._edges[node.name, k].used[taken[tensor], taken[node.name, k]]
        return Selection(chosen, used, price, table.exact)

    def _step(self, table: CostTable, node: NetworkNode, prices: np.ndarray, fifos: float) -> None:
        axes: list[Axis] = []
        for k, tensor in enumerate(node.inputs):
            if tensor in self._given:
                costs = self._edges[node.name, k].at(prices, fifos)
                table.join(tensor, (node.name, k), costs, self._is_last(node, k))
                axes.append((node.name, k))
        ports = [k for k, tensor in enumerate(node.inputs) if tensor in self._given]
        read_outputs = [k for k, tensor in enumerate(node.outputs) if self._network.consumers(tensor)]
        table.choose(
            node.name,
            axes,
            [self._taken[node.name, k].of for k in ports],
            [node.outputs[k] for k in read_outputs],
            [self._given[node.outputs[k]].of for k in read_outputs],
            np.array([one.used @ prices + one.fifos * fifos for one in self._alternatives[node.name]]),
            self._extra[node.name],
        )
        table.narrow()

    def _is_last(self, node: NetworkNode, k: int) -> bool:
        """Return whether no node reads the tensor after that input."""
        last, port = self._network.consumers(node.inputs[k])[-1]
        return (last.name, port) == (node.name, k)


class _Classes:
    """Orders that are alike, as one.

    Attributes:
        orders: different ones.
        of: (alternatives,) int64: the class of each.
    """

    def __init__(self, orders: Sequence[Order]) -> None:
        different = {key_of(order): order for order in orders}
        numbers = {key: number for number, key in enumerate(different)}
        self.orders = tuple(different.values())
        self.of = np.array([numbers[key_of(order)] for order in orders])
