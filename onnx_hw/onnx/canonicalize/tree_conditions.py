"""Conditions on the ways to the leaves of decision trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from onnx_hw.onnx.operators.tree_ensemble import Branch, Forest

Terms = tuple[tuple[int, int], ...]
"""Conditions of a way, by number, each with 1 where it counts and −1 where it counts against the leaf."""


@dataclass
class TreeConditions:
    """Conditions ``x[feature] <= threshold`` of all trees, and the ways to the leaves.

    Attributes:
        margins: for each feature, the distance from a number at which another one does not equal it any more.
        numbers: number of each condition: of its feature, its threshold, whether numbers must be below that, and
            whether NaN fulfils it.
        ways: for each leaf of each tree: the leaf's number, the conditions and how many must hold.
    """

    margins: dict[int, float]
    numbers: dict[tuple[int, float, bool, bool], int] = field(default_factory=dict)
    ways: list[tuple[int, Terms, int]] = field(default_factory=list)

    def add(self, root: Branch | int) -> None:
        """Add the ways of a tree."""
        pending: list[tuple[Branch | int, Terms, int]] = [(root, (), 0)]
        while pending:
            place, terms, need = pending.pop()
            if isinstance(place, int):
                self.ways.append((place, terms, need))
                continue
            counted, falls = self._terms(place)  # their sum is 0 or 1
            against = tuple((number, -sign) for number, sign in counted)
            if_one, if_zero = (place.otherwise, place.then) if falls else (place.then, place.otherwise)
            pending += [(if_zero, (*terms, *against), need), (if_one, (*terms, *counted), need + 1)]

    def _terms(self, branch: Branch) -> tuple[Terms, bool]:
        """Return terms whose sum is 0 or 1, and whether the condition of the branch holds where it is 0."""
        falls = branch.mode in ("GT", "GTE", "NEQ")
        if branch.mode in ("LEQ", "GT", "LT", "GTE"):
            (number,) = branch.thresholds
            below = branch.mode in ("LT", "GTE")
            return ((self._number(branch.feature, number, below, branch.missing != falls), 1),), falls
        if branch.missing and not falls:
            raise NoConditionsError
        terms: list[tuple[int, int]] = []
        margin = self.margins[branch.feature]
        for number in sorted(set(branch.thresholds)):
            ends = ((number + margin, 1), (number - margin, -1))
            terms += [(self._number(branch.feature, end, False, False), sign) for end, sign in ends]
        return tuple(terms), falls

    def _number(self, feature: int, threshold: float, below: bool, missing: bool) -> int:
        """Return the number of a condition; no float32 is between its threshold and the nearest one that counts."""
        if not np.isfinite(threshold):
            raise NoConditionsError
        close = np.float32(threshold)
        if below and close < threshold:
            close = np.nextafter(close, np.float32(np.inf))
        elif not below and close > threshold:
            close = np.nextafter(close, np.float32(-np.inf))
        return self.numbers.setdefault((feature, float(close), below, missing), len(self.numbers))


def _branches(forest: Forest) -> Iterator[Branch]:
    pending = list(forest.roots)
    while pending:
        place = pending.pop()
        if not isinstance(place, int):
            yield place
            pending += [place.then, place.otherwise]


def margins_of(forest: Forest) -> dict[int, float]:
    """Return, for each feature, a quarter of the least distance of numbers that it may equal, but at most of 1."""
    numbers: dict[int, set[float]] = {}
    for branch in _branches(forest):
        equals = branch.mode in ("EQ", "NEQ", "MEMBER")
        numbers.setdefault(branch.feature, set()).update(branch.thresholds if equals else ())
    return {feature: min([1.0, *np.diff(sorted(of)).tolist()]) / 4 for feature, of in numbers.items()}


class NoConditionsError(Exception):
    """Trees that are no sums of comparisons with finite thresholds."""
