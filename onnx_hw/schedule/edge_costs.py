"""Costs between neighbours, for every order that one may give and the other one take; priced where it matters.

There are hundreds of such pairs on an edge, most of them far from cheap. So a pair is first taken for what it costs at
least: its last FIFO; then all its FIFOs, and the memory and the multiplexers of a gearbox. It is priced when that alone
does not rule it out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from onnx_hw.ops.stream_order import Order
from onnx_hw.schedule.budget import RESOURCES
from onnx_hw.schedule.candidates import Offers

ROUNDING_MARGIN = 1 - 1e-9
"""Factor of a bound that makes it one in whatever order its terms are added up."""


MAX_FINITE_COST = sys.float_info.max
"""Limit above which a cost counts as infinite."""


class Neighbours:
    """The two ends of an edge.

    Attributes:
        used: (given, taken, resources) int64: what lies between; where it is not ``known`` yet, no more than that.
        fifos: (given, taken) int64: its FIFOs, in LUTs; where it is not ``known`` yet, no more than that.
        legal: (given, taken) bool: whether it is fast enough, where it is known.
        known: (given, taken) bool.
        bounded: (given, taken) bool: whether it is known, or its least cost without its last FIFO is known.
    """

    def __init__(self, offers: Offers, given: Sequence[Order], taken: Sequence[Order], interval: int) -> None:
        self._offers, self._given, self._taken, self._interval = offers, given, taken, interval
        shape = len(given), len(taken)
        self.known = np.array([[before.alike(after) for after in taken] for before in given])
        self.used = np.zeros((*shape, len(RESOURCES)), dtype=np.int64)
        self.fifos = np.where(self.known, 0, [offers.fifo_of(after) for after in taken])
        self.legal = np.ones(shape, dtype=bool)
        self.bounded = self.known.copy()

    def bound(self, given: int, taken: int) -> None:
        """Compute the least cost of a pair."""
        bound = self._offers.between_at_least(self._given[given], self._taken[taken])
        self.bounded[given, taken] = True
        self.used[given, taken], self.fifos[given, taken] = bound.used, bound.fifos

    def learn(self, given: int, taken: int) -> None:
        """Price a pair."""
        converters = self._offers.between(self._given[given], self._taken[taken])
        self.known[given, taken] = self.bounded[given, taken] = True
        self.used[given, taken], self.fifos[given, taken] = converters.used, converters.fifos
        self.legal[given, taken] = converters.cycles <= self._interval

    def at(self, prices: np.ndarray, fifos: float) -> EdgeCosts:
        """See ``CheapestOfEach.at``."""
        return EdgeCosts(self, prices, fifos)


class EdgeCosts:
    """Those of an edge at given prices."""

    def __init__(self, between: Neighbours, prices: np.ndarray, fifos: float) -> None:
        self._between, self._prices, self._fifos = between, prices, fifos
        self._costs = self._at(slice(None), slice(None))

    def to(self, taken: int, given: np.ndarray, so_far: np.ndarray) -> np.ndarray:
        """Return the costs from each of some orders to one, (given,) float64; infinite where another one is cheaper,
        whatever is open.

        Args:
            given: (given,) int64.
            so_far: (given, ...) float64: what it costs to come to each of them.
        """
        so_far = so_far.reshape(len(given), -1)
        known = self._between.known[given, taken]
        costs = np.where(known, self._costs[given, taken], np.inf)
        best = np.minimum((so_far + costs[:, None]).min(axis=0), MAX_FINITE_COST)
        bounds = np.where(known, np.inf, self._costs[given, taken] * ROUNDING_MARGIN)
        likely = np.flatnonzero((so_far + bounds[:, None] <= best).any(axis=1))
        least = so_far.min(axis=1)
        cheapest_first = [(float(least[k] + bounds[k]), int(k)) for k in likely]
        heapify(cheapest_first)
        while cheapest_first:
            _, k = heappop(cheapest_first)
            if not (so_far[k] + bounds[k] <= best).any():
                continue
            if not self._between.bounded[given[k], taken]:
                bounds[k] = self._bounded(int(given[k]), taken) * ROUNDING_MARGIN
                heappush(cheapest_first, (float(least[k] + bounds[k]), k))
            else:
                costs[k] = self._learned(int(given[k]), taken)
                best = np.minimum(best, so_far[k] + costs[k])
        return costs

    def all(self, given: np.ndarray, taken: np.ndarray, reached: np.ndarray) -> np.ndarray:
        """Return the costs from some orders to others, (given, taken) float64.

        Args:
            given, taken: (given,) int64; (taken,) int64.
            reached: (given,) bool: whether anything leads to that order; from others the costs are infinite.
        """
        costs = np.full((len(given), len(taken)), np.inf)
        for k in np.flatnonzero(reached):
            costs[k] = [self._learned(int(given[k]), int(w)) for w in taken]
        return costs

    def _bounded(self, given: int, taken: int) -> float:
        self._between.bound(given, taken)
        self._costs[given, taken] = self._at(given, taken)
        return float(self._costs[given, taken])

    def _learned(self, given: int, taken: int) -> float:
        if not self._between.known[given, taken]:
            self._between.learn(given, taken)
            self._costs[given, taken] = self._at(given, taken)
        return float(self._costs[given, taken])

    def _at(self, given: Any, taken: Any) -> np.ndarray:
        costs = self._between.used[given, taken] @ self._prices + self._between.fifos[given, taken] * self._fifos
        return np.where(self._between.legal[given, taken], costs, np.inf)
