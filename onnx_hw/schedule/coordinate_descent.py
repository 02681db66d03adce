"""Cheap alternatives where a table of all of them would be too large.

A first choice comes from a table that is cut to its most promising orders. It is then refined: in turn, a few branches
are free again, as many as a small table has room for, and all nodes that are no branches; the other branches keep what
they have. The price never rises, and a round in which it hardly falls is the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Subset = dict[str, np.ndarray]
"""Alternatives that may be chosen, by node: (some,) int64, rising."""

Solution = tuple[float, Subset, bool]
"""A price; one alternative of each node; whether there is surely none cheaper."""


@dataclass(frozen=True)
class TableSize:
    """Size of the tables of a problem: entries of the largest one, and of what leads back through all."""

    largest: int
    remembered: int

    def within(self, other: TableSize) -> bool:
        """Return whether neither is larger."""
        return self.largest <= other.largest and self.remembered <= other.remembered


@dataclass(frozen=True)
class Subproblems:
    """Problems in which only some alternatives may be chosen.

    Attributes:
        all: all alternatives.
        branches: nodes whose outputs stay open for long, in their order.
        size: returns the size of a subset's tables.
        at_once: size of a problem that is solved without branches being kept.
    """

    all: Subset
    branches: list[str]
    size: Callable[[Subset], TableSize]
    at_once: TableSize


BLOCK = TableSize(largest=1_000_000, remembered=4_000_000)
"""Size of the tables in which branches are refined."""

MAX_ROUNDS = 3
"""Number of times that every branch is refined."""

LEAST_GAIN = 1e-3
"""Share by which a price must fall in a round for another one."""


def descend(
    problems: Subproblems, solve: Callable[[Subset, int], Solution | None], start: Subset | None, limit: int
) -> Solution | None:
    """Return the cheapest alternatives, or cheap ones; None if they do not come together.

    Args:
        solve: returns the cheapest of a subset, with tables that are cut to a number of entries.
        start: a choice that is possible, if one is known.
        limit: entries that a table may have where the problem is solved at once.
    """
    if problems.size(problems.all).within(problems.at_once):
        return solve(problems.all, limit)
    solution = solve(start or problems.all, BLOCK.largest // 10)
    for _ in range(MAX_ROUNDS):
        if solution is None:
            return None
        before = solution[0]
        for free in _blocks(problems, solution[1], BLOCK):
            refined = solve(_subset(problems, solution[1], free), limit)
            if refined is not None and refined[0] < solution[0]:
                solution = refined
        if solution[0] > before * (1 - LEAST_GAIN):
            break
    return None if solution is None else (solution[0], solution[1], False)


def _blocks(problems: Subproblems, solution: Subset, size: TableSize) -> Iterator[set[str]]:
    """Yield nodes that are free at once: all that are no branches, and as many branches in a row as have room."""
    others = problems.all.keys() - problems.branches
    first = 0
    while first < len(problems.branches):
        last = first + 1
        while last < len(problems.branches):
            free = others.union(problems.branches[first : last + 1])
            if not problems.size(_subset(problems, solution, free)).within(size):
                break
            last += 1
        yield others.union(problems.branches[first:last])
        first = last


def _subset(problems: Subproblems, solution: Subset, free: set[str]) -> Subset:
    return {name: some if name in free else solution[name] for name, some in problems.all.items()}
