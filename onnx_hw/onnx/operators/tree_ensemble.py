"""Decision trees, as the attributes of ``ai.onnx.ml`` describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.allowance import hold, spend
from onnx_hw.onnx.operators.dtypes import Array

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
"""Comparisons of a feature with the threshold of a node, by their numbers in TreeEnsemble."""

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""Ways to combine the values of the leaves that are reached, one in each tree, by their numbers in TreeEnsemble."""

TRANSFORM_NUMBERS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Transforms of the scores, by their numbers in TreeEnsemble."""


@dataclass(frozen=True)
class Branch:
    """Inner node of a tree.

    Attributes:
        feature: number of the feature that is compared.
        mode: one of ``MODES``.
        thresholds: what the feature is compared with: one number, but for MEMBER any number of them.
        missing: whether NaN takes the way of true conditions.
        then, otherwise: where a true and a false condition lead to: a branch, or the number of a leaf.
    """

    feature: int
    mode: str
    thresholds: tuple[float, ...]
    missing: bool
    then: Branch | int
    otherwise: Branch | int

    def holds(self, column: Array) -> Array:
        """Return whether the condition is true for numbers of the feature, of any shape."""
        first = np.float64(self.thresholds[0]) if self.thresholds else np.float64(0)  # compared as wide as it is
        match self.mode:
            case "LEQ":
                result = column <= first
            case "LT":
                result = column < first
            case "GTE":
                result = column >= first
            case "GT":
                result = column > first
            case "EQ":
                result = column == first
            case "NEQ":
                result = column != first
            case _:
                result = np.isin(column, np.array(self.thresholds, np.float64))
        return np.asarray(result | np.isnan(column) if self.missing else result)


@dataclass(frozen=True)
class Forest:
    """Trees and the values of their leaves.

    Attributes:
        roots: the trees; a tree without a condition is the number of a leaf.
        values: (leaves, targets) float64 what a leaf adds to each target, 0 where it adds nothing.
        votes: (leaves, targets) whether a leaf has a value for a target.
    """

    roots: tuple[Branch | int, ...]
    values: Array = field(repr=False)
    votes: Array = field(repr=False)

    def leaves(self, x: Array) -> Array:
        """Return the number of the leaf that each row reaches in each tree: (rows, features) to (rows, trees)."""
        hold((len(x), len(self.roots)), np.int64)
        result = np.zeros((len(x), len(self.roots)), np.int64)
        for tree, root in enumerate(self.roots):
            pending = [(root, np.arange(len(x)))]
            while pending:
                place, rows = pending.pop()
                if isinstance(place, int):
                    result[rows, tree] = place
                elif rows.size:
                    spend(rows.size, calls=1)
                    taken = place.holds(x[rows, place.feature])
                    pending += [(place.then, rows[taken]), (place.otherwise, rows[~taken])]
        return result

    def combined(self, x: Array, aggregate: str) -> tuple[Array, Array]:
        """Return the combined values, (rows, targets) float64, and whether some leaf has a value for the target."""
        leaves, targets = self.leaves(x), self.values.shape[1]
        hold((*leaves.shape, targets))
        values, votes = self.values[leaves], self.votes[leaves]
        some = np.asarray(votes.any(1))
        if aggregate in ("MIN", "MAX"):
            reduce, neutral = (np.min, np.inf) if aggregate == "MIN" else (np.max, -np.inf)
            return np.where(some, reduce(np.where(votes, values, neutral), axis=1), 0), some
        total = values.sum(1)
        return total / len(self.roots) if aggregate == "AVERAGE" else total, some


def forest_of_lists(attributes: Mapping[str, Any], kind: str, targets: int) -> Forest:
    """Return the forest of a TreeEnsembleClassifier (``class``) or TreeEnsembleRegressor (``target``).

    Raises:
        ValueError: the lists do not describe trees.
    """
    names = ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
    tree, node, feature, modes, then, otherwise = (attributes.get(f"nodes_{name}") or () for name in names)
    thresholds = _numbers(attributes, "nodes_values")
    missing = attributes.get("nodes_missing_value_tracks_true") or (0,) * len(node)
    if {len(each) for each in (tree, feature, modes, then, otherwise, thresholds, missing)} != {len(node)}:
        raise ValueError(f"all lists of nodes must have one length, that of nodes_nodeids: {len(node)}")
    places = {key: k for k, key in enumerate(zip(tree, node, strict=True))}
    if len(places) < len(node):
        raise ValueError("the nodes of a tree must have different numbers")
    leaf_of, made = dict[int, int](), dict[int, Branch | int]()
    roots = list({number: k for k, number in reversed(list(enumerate(tree)))}.values())[::-1]
    for k in _from_leaves(len(node), lambda k: _children(k, modes, tree, then, otherwise, places)):
        mode = _mode(modes[k])
        if mode == "LEAF":
            made[k] = leaf_of.setdefault(k, len(leaf_of))
        else:
            below = [made[places[tree[k], other[k]]] for other in (then, otherwise)]
            made[k] = Branch(feature[k], mode, (thresholds[k],), bool(missing[k]), *below)
    values, votes = np.zeros((len(leaf_of), targets)), np.zeros((len(leaf_of), targets), bool)
    lists = [attributes.get(f"{kind}_{name}") or () for name in ("treeids", "nodeids", "ids")]
    weights = _numbers(attributes, f"{kind}_weights")
    if {len(each) for each in lists} != {len(weights)}:
        raise ValueError(f"all lists of leaves must have one length, that of {kind}_weights: {len(weights)}")
    for of_tree, of_node, target, weight in zip(*lists, weights, strict=True):
        leaf = leaf_of.get(places.get((of_tree, of_node), -1))
        if leaf is None or not 0 <= target < targets:
            raise ValueError(f"{kind}_nodeids and {kind}_ids must name leaves and one of {targets} targets")
        values[leaf, target] += weight
        votes[leaf, target] = True
    return Forest(tuple(made[k] for k in roots), values, votes)


def forest_of_roots(attributes: Mapping[str, Any], targets: int) -> Forest:
    """Return the forest of a TreeEnsemble.

    Raises:
        ValueError: the lists do not describe trees.
    """
    names = ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    feature, then, then_leaf, otherwise, otherwise_leaf = (attributes[f"nodes_{name}"] for name in names)
    thresholds = np.asarray(attributes["nodes_splits"], np.float64).reshape(-1).tolist()
    modes = np.asarray(attributes["nodes_modes"]).reshape(-1).tolist()
    missing = attributes.get("nodes_missing_value_tracks_true") or (0,) * len(feature)
    if {len(each) for each in (then, then_leaf, otherwise, otherwise_leaf, thresholds, modes, missing)} != {
        len(feature)
    }:
        raise ValueError(f"all lists of nodes must have one length, that of nodes_featureids: {len(feature)}")
    if not all(0 <= mode < len(MODES) for mode in modes):
        raise ValueError(f"a mode must be within 0..{len(MODES) - 1}")
    sets = iter(_members(attributes.get("membership_values")))
    compared = [
        next(sets, ()) if MODES[mode] == "MEMBER" else (number,) for mode, number in zip(modes, thresholds, strict=True)
    ]
    weights = np.asarray(attributes["leaf_weights"], np.float64).reshape(-1)
    target_of = np.asarray(attributes["leaf_targetids"], np.int64)
    if target_of.shape != weights.shape or not ((target_of >= 0) & (target_of < targets)).all():
        raise ValueError(f"each leaf must have a weight and one of {targets} targets")

    def children(k: int) -> list[int]:
        ways = ((then, then_leaf), (otherwise, otherwise_leaf))
        return [numbers[k] for numbers, is_leaf in ways if not is_leaf[k]]

    made = dict[int, Branch | int]()
    for k in _from_leaves(len(feature), children):
        ways = ((then[k], then_leaf[k]), (otherwise[k], otherwise_leaf[k]))
        if any(is_leaf and not 0 <= number < weights.size for number, is_leaf in ways):
            raise ValueError(f"a leaf must be within 0..{weights.size - 1}")
        below = [number if is_leaf else made[number] for number, is_leaf in ways]
        same = below[0] == below[1] and isinstance(below[0], int)
        made[k] = below[0] if same else Branch(feature[k], MODES[modes[k]], compared[k], bool(missing[k]), *below)
    if not all(root in made for root in attributes["tree_roots"]):
        raise ValueError("tree_roots must name nodes")
    values = np.zeros((weights.size, targets))
    votes = np.zeros_like(values, bool)
    values[np.arange(weights.size), target_of] = weights
    votes[np.arange(weights.size), target_of] = True
    return Forest(tuple(made[root] for root in attributes["tree_roots"]), values, votes)


def _numbers(attributes: Mapping[str, Any], name: str) -> Sequence[float]:
    """Return numbers that are a list of floats, or a tensor of another type under the same name with a suffix."""
    tensor = attributes.get(f"{name}_as_tensor")
    return (attributes.get(name) or ()) if tensor is None else np.asarray(tensor, np.float64).reshape(-1).tolist()


def _mode(text: str | bytes) -> str:
    plain = text.decode() if isinstance(text, bytes) else text
    mode = plain.removeprefix("BRANCH_")
    if mode != "LEAF" and mode not in MODES[:-1]:
        raise ValueError(f"a mode must be LEAF or one of {', '.join(f'BRANCH_{m}' for m in MODES[:-1])}, not {plain}")
    return mode


def _children(
    k: int,
    modes: Sequence[str],
    tree: Sequence[int],
    then: Sequence[int],
    otherwise: Sequence[int],
    places: Mapping[tuple[int, int], int],
) -> list[int]:
    if _mode(modes[k]) == "LEAF":
        return []
    below = [places.get((tree[k], other[k]), -1) for other in (then, otherwise)]
    if min(below) < 0:
        raise ValueError(f"the branches of node {k} must be nodes of its tree")
    return below


def _from_leaves(count: int, children: Any) -> list[int]:
    """Return the numbers of all nodes, each behind the nodes below it.

    Raises:
        ValueError: a node is below itself, or its branches are no nodes.
    """
    order, state = list[int](), [0] * count  # 0: not met, 1: nodes below it are visited, 2: done
    for first in range(count):
        stack = [first]
        while stack:
            k = stack[-1]
            if not 0 <= k < count:
                raise ValueError(f"a branch must be within 0..{count - 1}, not {k}")
            if state[k] == 0:
                state[k] = 1
                below = children(k)
                if any(0 <= other < count and state[other] == 1 for other in below):
                    raise ValueError("a node of a tree must not be below itself")
                stack += [other for other in below if not 0 <= other < count or state[other] == 0]
            else:
                if state[k] == 1:
                    order.append(k)
                state[k] = 2
                stack.pop()
    return order


def _members(values: Array | None) -> list[tuple[float, ...]]:
    """Return the sets of a tensor, in which NaN ends each of them."""
    sets: list[tuple[float, ...]] = []
    current: list[float] = []
    for number in [] if values is None else np.asarray(values, np.float64).reshape(-1).tolist():
        if np.isnan(number):
            sets.append(tuple(current))
            current = []
        else:
            current.append(number)
    return [*sets, tuple(current)] if current else sets
