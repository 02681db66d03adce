"""A table of prices, carried from node to node: what the nodes so far cost at least, for all that is still open.

An axis is the order in which a tensor is given, or a node takes its inputs; the last axis is how much of the scarce
resource there is. Behind the last node the way back tells which entries led to the least price.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from onnx_hw.schedule.edge_costs import EdgeCosts

MAX_TABLE_ENTRIES = 1_000_000
"""Number of entries at most of a table that is carried on."""

STEP_FACTOR = 16
"""Factor by which a table may be larger while it is made."""

MAX_CHUNK_ENTRIES = 1 << 22
"""Number of entries that are added up at once."""

Axis = tuple[str, str]
"""Axis of a table: a node, and the first of its outputs that go alike; or a node, and ``TAKEN``."""

TAKEN = ""
"""Mark of an axis of how a node takes its inputs."""


class CostTable:
    """Table of the least costs after some nodes, and the choices that lead to each of them.

    Args:
        room: amount that there is of the scarce resource, beyond what is needed at least.
        limit: greatest number of entries.

    Attributes:
        prices: an axis for every entry of ``axes``, and the last one: the amount of the scarce resource that may be
            taken at most, beyond what is needed at least.
        axes: those with more than one entry.
        labels: by axis, also those with one entry: the classes that its entries stand for.
        exact: whether nothing was left out.
    """

    def __init__(self, room: int, limit: int = MAX_TABLE_ENTRIES) -> None:
        self.prices = np.zeros(room + 1)
        self.axes: list[Axis] = []
        self.labels: dict[Axis, np.ndarray] = {}
        self.exact = True
        self._limit = limit
        self._back: list[_Join | _Chosen | _Narrowed] = []

    def begin(self, taken: Axis) -> None:
        """Add the axis of how a node takes its inputs, of which none is joined yet: one entry, 0."""
        self.labels[taken] = np.zeros(1, dtype=np.int64)

    def join(
        self, given: Axis, taken: Axis, earlier: np.ndarray, classes: np.ndarray, costs: EdgeCosts, last: bool
    ) -> None:
        """Add the cost from how a tensor is given to how a node takes it.

        Args:
            earlier: (entries,) int64: how the node takes its earlier inputs, a label of ``taken``, for each new one.
            classes: (entries,) int64: how it takes this input.
            last: whether nothing reads the tensor after that.
        """
        self._shrink([given] if last else [], lambda: len(self._that_remain(taken, earlier)), [taken])
        fresh_labels = self._that_remain(taken, earlier)
        before, classes = np.searchsorted(self.labels[taken], earlier[fresh_labels]), classes[fresh_labels]
        table, rest = self._to_front([given, taken])
        labels = self.labels[given]
        if last:
            fresh = np.empty((len(classes), *table.shape[2:]))
            came = np.empty(fresh.shape, dtype=np.min_scalar_type(len(labels)))
            chunk = max(1, MAX_CHUNK_ENTRIES // (len(labels) * prod(table.shape[2:])))
            for w in np.unique(classes):
                alike = np.flatnonzero(classes == w)
                for some in np.split(alike, range(chunk, len(alike), chunk)):
                    so_far = table[:, before[some]]
                    both = so_far + costs.to(int(w), labels, so_far).reshape(-1, *[1] * (table.ndim - 1))
                    came[some], fresh[some] = both.argmin(axis=0), both.min(axis=0)
            del self.labels[given]
            self.labels[taken] = fresh_labels
            self._replace(fresh, [taken, *rest])
            self._back.append(_Join(taken, before, given, tuple(self.axes), came.reshape(self.prices.shape)))
        else:
            reached = np.isfinite(table).reshape(len(labels), -1).any(axis=1)
            between = costs.all(labels, classes, reached)
            self.labels[taken] = fresh_labels
            self._replace(
                table[:, before] + between.reshape(*between.shape, *[1] * (table.ndim - 2)), [given, taken, *rest]
            )
            self._back.append(_Join(taken, before))

    def choose(
        self, taken: Axis, takes: np.ndarray, gives: dict[Axis, np.ndarray], costs: np.ndarray, extra: np.ndarray
    ) -> None:
        """Add a node whose inputs are joined.

        Args:
            takes: (alternatives,) int64: how each takes its inputs, a label of ``taken``.
            gives: by axis, (alternatives,) int64: how each gives outputs.
            costs: (alternatives,) float64.
            extra: (alternatives,) int64: what each takes of the scarce resource, beyond the least.
        """
        labels = {axis: np.unique(of) for axis, of in gives.items()}
        self._shrink([taken], lambda: prod(map(len, labels.values())), [])
        table, rest = self._to_front([taken])
        room = table.shape[-1]
        fresh = np.full((*map(len, labels.values()), *table.shape[1:]), np.inf)
        which = np.zeros(fresh.shape, dtype=np.min_scalar_type(len(costs)))
        entries = [np.searchsorted(labels[axis], of) for axis, of in gives.items()]
        sources = np.searchsorted(self.labels[taken], takes)
        there = np.isin(takes, self.labels[taken])
        for k in _worth_it([takes, *entries], costs, extra):
            more = int(extra[k])
            if more >= room or not there[k]:
                continue
            entry = tuple(of[k] for of in entries)
            candidate = table[sources[k]][..., : room - more] + costs[k]
            target, choice = fresh[entry][..., more:], which[entry][..., more:]
            better = candidate < target
            target[better] = candidate[better]
            choice[better] = k
        del self.labels[taken]
        self.labels |= labels
        self._replace(fresh, [*gives, *rest])
        self._back.append(_Chosen(taken, sources, extra, tuple(self.axes), which.reshape(self.prices.shape)))

    def narrow(self) -> None:
        """Keep the more promising half of the orders of one axis after the other, until the table is small enough."""
        while self.prices.size > self._limit and self.axes:
            self._halve(self.axes[int(np.argmax(self.prices.shape[:-1]))])

    def back(self) -> dict[str, int]:
        """Return the alternative of each node."""
        at = np.unravel_index(int(self.prices[..., -1].argmin()), self.prices.shape[:-1])
        entry = dict(zip(self.axes, map(int, at), strict=True))
        left, picked = self.prices.shape[-1] - 1, dict[str, int]()

        def entries(axes: Sequence[Axis]) -> tuple[int, ...]:
            return (*(entry[axis] for axis in axes), left)

        for step in reversed(self._back):
            if isinstance(step, _Narrowed):
                entry[step.axis] = int(step.kept[entry.get(step.axis, 0)])
            elif isinstance(step, _Join):
                if step.given is not None and step.came is not None:
                    entry[step.given] = int(step.came[entries(step.axes)])
                entry[step.taken] = int(step.before[entry.get(step.taken, 0)])
            else:
                picked[step.taken[0]] = k = int(step.which[entries(step.axes)])
                left -= int(step.extra[k])
                entry[step.taken] = int(step.sources[k])
        return picked

    def _that_remain(self, taken: Axis, earlier: np.ndarray) -> np.ndarray:
        return np.flatnonzero(np.isin(earlier, self.labels[taken]))

    def _shrink(self, gone: list[Axis], fresh: Callable[[], int], replaced: list[Axis]) -> None:
        """Halve axes until the next table is small enough: without the axes that are ``gone`` or ``replaced``, and with
        ``fresh()`` entries of its new axes for each of the others.
        """
        while True:
            others = [axis for axis in self.axes if axis not in gone and axis not in replaced]
            size = prod(len(self.labels[axis]) for axis in others) * self.prices.shape[-1] * fresh()
            some = [axis for axis in self.axes if axis not in gone]
            if size <= STEP_FACTOR * self._limit or not some:
                return
            self._halve(max(some, key=lambda axis: len(self.labels[axis])))

    def _halve(self, axis: Axis) -> None:
        at = self.axes.index(axis)
        best = self.prices.min(axis=tuple(k for k in range(self.prices.ndim) if k != at))
        kept = np.sort(np.argsort(best, kind="stable")[: -(-len(best) // 2)])
        self.labels[axis] = self.labels[axis][kept]
        self._replace(self.prices.take(kept, at), list(self.axes))
        last, narrowed = self._back[-1], _Narrowed(axis, kept)
        if isinstance(last, _Chosen):  # what led to the others is not asked for any more
            which = last.which.take(kept, at).reshape(self.prices.shape)
            self._back[-1:] = [narrowed, replace(last, which=which, axes=tuple(self.axes))]
        else:
            self._back.append(narrowed)
        self.exact = False

    def _replace(self, prices: np.ndarray, axes: list[Axis]) -> None:
        """Take a table; an axis with one entry is left out of it."""
        self.axes = [axis for axis, entries in zip(axes, prices.shape[:-1], strict=True) if entries > 1]
        self.prices = prices.reshape([n for n in prices.shape[:-1] if n > 1] + [prices.shape[-1]])

    def _to_front(self, axes: Sequence[Axis]) -> tuple[np.ndarray, list[Axis]]:
        """Return the table with these axes first, also those with one entry; and its other axes."""
        there = [axis for axis in axes if axis in self.axes]
        table = np.moveaxis(self.prices, [self.axes.index(axis) for axis in there], range(len(there)))
        rest = [axis for axis in self.axes if axis not in axes]
        return table.reshape(*(len(self.labels[axis]) for axis in axes), *table.shape[len(there) :]), rest


@dataclass(frozen=True)
class _Join:
    """How the entries before follow from those after.

    Attributes:
        before: by entry of ``taken``, the one that it continues.
        given, came: the axis that was read for the last time, and its entry for each entry of the table.
        axes: of ``came``, but the last one.
    """

    taken: Axis
    before: np.ndarray
    given: Axis | None = None
    axes: tuple[Axis, ...] = ()
    came: np.ndarray | None = None


@dataclass(frozen=True)
class _Chosen:
    """Alternative of a node that led to each entry.

    Attributes:
        sources: by alternative, the entry of ``taken``.
        axes: of ``which``, but the last one.
    """

    taken: Axis
    sources: np.ndarray
    extra: np.ndarray
    axes: tuple[Axis, ...]
    which: np.ndarray


@dataclass(frozen=True)
class _Narrowed:
    """Entries that were kept."""

    axis: Axis
    kept: np.ndarray


def _worth_it(streams: list[np.ndarray], costs: np.ndarray, extra: np.ndarray) -> list[int]:
    """Return, of alternatives with equal streams, those that are cheaper than all that use no more."""
    best: dict[tuple[int, ...], float] = {}
    kept = []
    for k in np.lexsort((costs, extra)):
        key = tuple(int(of[k]) for of in streams)
        if costs[k] < best.get(key, np.inf):
            best[key] = costs[k]
            kept.append(int(k))
    return kept
