"""A table of prices, carried from node to node: what the nodes so far cost at least, for all that is still open.

An axis is an edge, and its entries are the orders in which the tensor may travel there; the last axis is how much of
the scarce resource there is. Behind the last node the way back tells which entries led to the least price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnx_hw.schedule.edge_costs import EdgeCosts

MAX_TABLE_ENTRIES = 1_000_000
"""Number of entries of a table at most."""

Axis = str | tuple[str, int]
"""A tensor, as its maker gives it; or (node, input), as it is taken."""


class CostTable:
    """It after some nodes, and how it came to be.

    Attributes:
        prices: an axis for every entry of ``axes``, and the last one: at most so much of what is scarce, beyond what is
            needed at least.
        exact: whether nothing was left out.
    """

    def __init__(self, prices: np.ndarray) -> None:
        self.prices = prices
        self.axes: list[Axis] = []
        self.exact = True
        self._back: list[_Join | _Chosen | _Narrowed] = []
        self._kept: dict[Axis, np.ndarray] = {}

    def join(self, tensor: str, taken: Axis, costs: EdgeCosts, last: bool) -> None:
        """Add the cost from how a tensor is given to how it is taken."""
        table = self._to_front([tensor])
        kept = self._kept.get(tensor, np.arange(len(table)))
        if last:
            fresh = np.empty((costs.taken, *table.shape[1:]))
            came = np.empty(fresh.shape, dtype=np.int32)
            for w in range(costs.taken):
                both = table + costs.to(w, kept, table).reshape(-1, *[1] * (table.ndim - 1))
                came[w] = both.argmin(axis=0)
                fresh[w] = both.min(axis=0)
            self.axes[0] = taken
            self._back.append(_Join(tensor, tuple(self.axes), came))
            self.prices = fresh
        else:
            self.prices = table[:, None] + costs.all(kept).reshape(len(kept), -1, *[1] * (table.ndim - 1))
            self.axes.insert(1, taken)

    def choose(
        self,
        name: str,
        taken: list[Axis],
        takes: list[np.ndarray],
        made: list[str],
        gives: list[np.ndarray],
        costs: np.ndarray,
        extra: np.ndarray,
    ) -> None:
        """Add a node: for each alternative the class it takes of each axis, the class it gives, its cost, what
        it uses.
        """
        table = self._to_front(taken)
        rest = table.shape[len(taken) :]
        shape = tuple(int(of.max()) + 1 for of in gives)
        fresh = np.full((*shape, *rest), np.inf)
        which = np.full(fresh.shape, -1, dtype=np.int32)
        for k in _worth_it(takes, gives, costs, extra):
            source = table[tuple(of[k] for of in takes)]
            entry = tuple(of[k] for of in gives)
            more = int(extra[k])
            if more >= rest[-1]:
                continue
            candidate = source[..., : rest[-1] - more] + costs[k]
            target, choice = fresh[entry][..., more:], which[entry][..., more:]
            better = candidate < target
            target[better] = candidate[better]
            choice[better] = k
        self.axes = [*made, *self.axes[len(taken) :]]
        self._back.append(_Chosen(name, tuple(self.axes), which, taken, takes, extra))
        self.prices = fresh

    def narrow(self) -> None:
        """Keep the more promising half of the orders of one axis after the other, until the table is small enough."""
        while self.prices.size > MAX_TABLE_ENTRIES and max(self.prices.shape[:-1]) > 1:
            axis = int(np.argmax(self.prices.shape[:-1]))
            others = tuple(k for k in range(self.prices.ndim) if k != axis)
            best = self.prices.min(axis=others)
            kept = np.sort(np.argsort(best, kind="stable")[: -(-len(best) // 2)])
            name = self.axes[axis]
            self._back.append(_Narrowed(name, kept))
            self._kept[name] = self._kept[name][kept] if name in self._kept else kept
            self.prices = self.prices.take(kept, axis)
            self.exact = False

    def back(self, room: int) -> tuple[dict[str, int], dict[Axis, int]]:
        """Return the alternative of each node, and the class of every axis there ever was."""
        classes: dict[Axis, int] = {}
        at = np.unravel_index(int(self.prices[..., room].argmin()), self.prices.shape[:-1])
        classes.update(zip(self.axes, map(int, at), strict=True))
        left, picked = room, {}
        for step in reversed(self._back):
            if isinstance(step, _Narrowed):
                classes[step.axis] = int(step.kept[classes[step.axis]])
                continue
            here = (*(classes[axis] for axis in step.axes), left)
            if isinstance(step, _Join):
                classes[step.tensor] = int(step.came[here])
            else:
                picked[step.name] = k = int(step.which[here])
                left -= int(step.extra[k])
                classes.update((axis, int(of[k])) for axis, of in zip(step.taken, step.takes, strict=True))
        return picked, classes

    def _to_front(self, axes: Sequence[Axis]) -> np.ndarray:
        """Return the table with these axes first."""
        places = [self.axes.index(axis) for axis in axes]
        self.axes = [*axes, *(axis for axis in self.axes if axis not in axes)]
        return np.moveaxis(self.prices, places, range(len(places)))


@dataclass(frozen=True)
class _Join:
    """How the given class follows from what came after."""

    tensor: str
    axes: tuple[Axis, ...]
    came: np.ndarray


@dataclass(frozen=True)
class _Chosen:
    """Alternative of a node that led to each entry."""

    name: str
    axes: tuple[Axis, ...]
    which: np.ndarray
    taken: list[Axis]
    takes: list[np.ndarray]
    extra: np.ndarray


@dataclass(frozen=True)
class _Narrowed:
    """Classes that were kept."""

    axis: Axis
    kept: np.ndarray


def _worth_it(takes: list[np.ndarray], gives: list[np.ndarray], costs: np.ndarray, extra: np.ndarray) -> list[int]:
    """Return, of alternatives with equal streams, those that are cheaper than all that use no more."""
    best: dict[tuple[int, ...], float] = {}
    kept = []
    for k in np.lexsort((costs, extra)):
        streams = tuple(int(of[k]) for of in (*takes, *gives))
        if costs[k] < best.get(streams, np.inf):
            best[streams] = costs[k]
            kept.append(int(k))
    return kept
