"""Decomposition of the trees of ``ai.onnx.ml`` into conditions, the leaves that are reached, and a table of leaves.

The host scales each feature such that the thresholds of all trees lie within −1..1, and the hardware gets integers of
``SCALED_BITS`` bits. A feature whose thresholds are too close to each other for that comes several times, each with
some of its thresholds. Scaling is monotone, so the conditions stay the same; a number beyond the thresholds may
saturate. A leaf is a sum of conditions, and the result the product of the leaves that are reached with a table of 16
bits. Trees that read values of the hardware compare these as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from onnx_hw.onnx.canonicalize.classical_rewriter import VERSION, ClassicalRewriter, form
from onnx_hw.onnx.canonicalize.tree_conditions import NoConditionsError, TreeConditions, margins_of
from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import Node
from onnx_hw.onnx.operators.classical_features import DOMAIN
from onnx_hw.onnx.operators.classical_trees import base_values_of, has_probabilities
from onnx_hw.onnx.operators.registry import INTERNAL
from onnx_hw.onnx.operators.tree_ensemble import (
    AGGREGATES,
    TRANSFORM_NUMBERS,
    Branch,
    Forest,
    forest_of_lists,
    forest_of_roots,
)

SCALED_BITS = 16
"""Bits of the integers of scaled features."""

USED_SPAN = 0.875
"""Greatest magnitude of a scaled threshold: a number beyond it saturates at 1."""

MAX_SPAN_IN_GAPS = 1 << 13
"""Greatest distance of the thresholds that share a scale, in distances of the closest two of them."""

MAX_COPIES = 8
"""Greatest number of scales of one feature."""

MAX_PATH = 1 << 24
"""Greatest number of conditions on the ways to all leaves together."""

LEAF_BITS = 16
"""Bits of the table of leaves."""

STEP = 2.0 ** (1 - SCALED_BITS)
"""Step of the integers of scaled features."""


@dataclass(frozen=True)
class _Column:
    """Scaled feature.

    Attributes:
        feature: number of the feature.
        missing: whether NaN becomes less than every threshold, instead of greater.
        thresholds: the thresholds that share the scale.
    """

    feature: int
    missing: bool
    thresholds: tuple[float, ...]

    @property
    def offset(self) -> np.float32:
        low, high = min(self.thresholds), max(self.thresholds)
        return np.float32(low / 2 + high / 2)

    @property
    def scale(self) -> np.float32:
        """Factor that leaves the thresholds within ``USED_SPAN``; of one threshold, floats next to it differ."""
        span = max(self.thresholds) - min(self.thresholds)
        close = float(np.spacing(np.float32(max(map(abs, self.thresholds))))) * 2.0 ** (SCALED_BITS - 2)
        return np.float32(2 * USED_SPAN / max(span, close))

    def scaled(self, threshold: float, *, below: bool) -> float:
        """Return the scaled threshold on the grid, rounded as an equal number is; or, with ``below``, just below it."""
        exact = np.float32(np.float32(np.float32(threshold) - self.offset) * self.scale)  # as the Scaler does it
        return float(np.rint(exact / STEP) - below / 2) * STEP

    @property
    def beyond(self) -> float:
        """Number beyond all thresholds that stands for NaN."""
        return float(self.offset) + (-2 if self.missing else 2) / float(self.scale)


def leaves_reached(rewriter: ClassicalRewriter, node: Node, forest: Forest) -> tuple[str, list[int]] | None:
    """Add nodes that say which leaves are reached.

    Returns:
        The name of the result, (rows, leaves) 0 or 1, and the number of each leaf; None for trees without a condition,
        or with conditions that are no comparisons with finite numbers.
    """
    source = rewriter.added.values[node.inputs[0]].element_type
    conditions = TreeConditions(margins_of(forest))
    if source not in BY_NAME:
        return None
    try:
        for root in forest.roots:
            conditions.add(root)
    except NoConditionsError:
        return None
    steps = max(len(terms) for _, terms, _ in conditions.ways)
    if not conditions.numbers or steps * len(conditions.ways) > MAX_PATH:
        return None
    paths = np.zeros((len(conditions.ways), steps), np.int64)
    for row, (_, terms, _) in zip(paths, conditions.ways, strict=True):
        row[: len(terms)] = [sign * (number + 1) for number, sign in terms]
    data = rewriter.rows(node, node.inputs[0])
    features = np.array([feature for feature, *_ in conditions.numbers])
    thresholds = np.array(
        [
            np.nextafter(np.float32(threshold), np.float32(-np.inf)) if below else np.float32(threshold)
            for _, threshold, below, _ in conditions.numbers
        ]
    )
    bits = 0
    if node.inputs[0] not in rewriter.streamed:
        columns = list(_columns(conditions))
        data = _scaled(rewriter, node, data, columns, is_float=BY_NAME[source].is_float)
        place = {(c.feature, t, c.missing): k for k, c in enumerate(columns) for t in c.thresholds}
        features = np.array(
            [place[feature, threshold, missing] for feature, threshold, _, missing in conditions.numbers]
        )
        thresholds = np.array(
            [
                columns[k].scaled(threshold, below=below)
                for k, (_, threshold, below, _) in zip(features, conditions.numbers, strict=True)
            ]
        )
        bits = SCALED_BITS
    constants = [
        rewriter.numbers(node, "features", features, "int64"),
        rewriter.numbers(node, "thresholds", thresholds),
        rewriter.numbers(node, "paths", paths, "int64"),
        rewriter.numbers(node, "needs", [need for _, _, need in conditions.ways], "int64"),
    ]
    attributes = {"scaled_bits": bits}
    rewriter.behind.update(node.outputs)
    rewriter.streamed.update(node.outputs)
    reached = rewriter.append(node, "ReachedLeaves", INTERNAL, 1, [data, *constants], "", attributes)
    return reached, [leaf for leaf, _, _ in conditions.ways]


def _columns(conditions: TreeConditions) -> Iterator[_Column]:
    """Yield the scaled features."""
    grouped: dict[tuple[int, bool], set[float]] = {}
    for feature, threshold, _, missing in conditions.numbers:
        grouped.setdefault((feature, missing), set()).add(threshold)
    for (feature, missing), thresholds in sorted(grouped.items()):
        ordered, span = sorted(thresholds), MAX_SPAN_IN_GAPS
        while len(parts := _parts(ordered, span)) > MAX_COPIES:
            span *= 2
        yield from (_Column(feature, missing, tuple(part)) for part in parts)


def _parts(ordered: list[float], max_span: int) -> list[list[float]]:
    """Split ascending thresholds into parts that a grid of ``max_span`` steps between its ends tells apart."""
    parts, closest = [[ordered[0]]], np.inf
    for threshold in ordered[1:]:
        part = parts[-1]
        gap = min(closest, threshold - part[-1])
        if threshold - part[0] <= max_span * gap:
            part.append(threshold)
            closest = gap
        else:
            parts.append([threshold])
            closest = np.inf
    return parts


def _scaled(rewriter: ClassicalRewriter, node: Node, data: str, columns: list[_Column], *, is_float: bool) -> str:
    """Add nodes that the host computes: the scaled features, with numbers beyond the thresholds in place of NaN."""
    chosen = rewriter.numbers(node, "columns", [column.feature for column in columns], "int64")
    result = rewriter.add(node, "Gather", data, chosen, axis=1)
    if is_float:
        beyond = {"imputed_value_floats": tuple(c.beyond for c in columns), "replaced_value_float": float("nan")}
        result = rewriter.append(node, "Imputer", DOMAIN, 1, [result], "", beyond)
    offset, scale = (tuple(float(getattr(column, what)) for column in columns) for what in ("offset", "scale"))
    return rewriter.append(node, "Scaler", DOMAIN, 1, [result], "", {"offset": offset, "scale": scale})


def _table_product(rewriter: ClassicalRewriter, node: Node, reached: str, table: np.ndarray, *, one_step: bool) -> str:
    """Add the product of the leaves that are reached with a table (leaves, columns); return the name of the result.

    The table gets integers of 16 bits, with a step per column, or one step, so that their sums can be compared.
    """
    highest = (1 << (LEAF_BITS - 1)) - 1
    columns = [table] if one_step else list(table.T)
    chosen = np.array([_step_of_leaves(column, highest) for column in columns], np.float32)
    steps = chosen[0] if one_step else chosen
    integers = np.clip(np.rint(table / steps.astype(np.float64)), -highest, highest)
    stored = rewriter.added.constant(f"{node.label}/leaves", integers.astype(np.int16), "int16")
    zeros = rewriter.added.constant(f"{node.label}/leaf_zeros", np.zeros(steps.shape, np.int16), "int16")
    scales = [rewriter.numbers(node, "leaf_steps", steps), zeros]
    axis = {} if one_step else {"axis": 1}
    weights = rewriter.append(node, "DequantizeLinear", "", TABLE_VERSION, [stored, *scales], "", axis)
    return rewriter.append(node, "MatMul", "", VERSION, [reached, weights], "", {})


TABLE_VERSION = 21
"""Opset of the DequantizeLinear of the table: the first with integers of 16 bits."""


def _step_of_leaves(values: np.ndarray, highest: int) -> float:
    """Return the coarsest power of two down to 2^-14 of which all values are multiples, such as 1 for whole numbers.

    Otherwise, return the step of the finest integers up to ``highest``.
    """
    largest = float(np.abs(values).max())
    for step in (2.0**-bits for bits in range(LEAF_BITS - 1)):
        if largest <= highest * step and (values % step == 0).all():
            return step
    return largest / highest


def _scores(
    rewriter: ClassicalRewriter,
    node: Node,
    forest: Forest,
    base: tuple[float, ...],
    aggregate: str = "SUM",
    *,
    one_step: bool = False,
) -> str | None:
    """Add the combined values of the leaves, (rows, targets); return the name of the result, None for other trees.

    Args:
        base: what is added for each target, or for all of them: in the leaves of the first tree, one of which is
            always reached; behind the least or the greatest value.
        one_step: whether the sums of all targets get one step.
    """
    picks = aggregate in ("MIN", "MAX")
    if picks and not forest.votes.all():
        return None
    reached = leaves_reached(rewriter, node, forest)
    if reached is None:
        return None
    leaves, targets, trees = reached[1], forest.values.shape[1], len(forest.roots)
    ends = np.cumsum([0, *(_count(root) for root in forest.roots)])
    values = forest.values[leaves] / (trees if aggregate == "AVERAGE" else 1)
    if not picks:
        values[: ends[1]] += np.array(base or (0.0,))
        return _table_product(rewriter, node, reached[0], values, one_step=one_step)
    table = np.zeros((len(leaves), trees, targets))
    for tree, (first, last) in enumerate(pairwise(ends)):
        table[first:last, tree] = values[first:last]
    each = _table_product(rewriter, node, reached[0], table.reshape(len(leaves), -1), one_step=True)
    shape = rewriter.numbers(node, "by_tree", [-1, trees, targets], "int64")
    apart = rewriter.add(node, "Reshape", each, shape)
    scores = rewriter.add(node, f"Reduce{aggregate.capitalize()}", apart, axes=(1,), keepdims=0)
    if any(base):
        scores = rewriter.add(node, "Add", scores, rewriter.numbers(node, "base", np.broadcast_to(base, targets)))
    return scores


def _count(root: Branch | int) -> int:
    """Return the number of leaves of a tree."""
    count, pending = 0, [root]
    while pending:
        place = pending.pop()
        if isinstance(place, int):
            count += 1
        else:
            pending += [place.then, place.otherwise]
    return count


MEANING = "as comparisons with thresholds, sums of these, and MatMul with a table of leaves"


@form("TreeEnsembleRegressor", f"{MEANING}; a transform of the scores on the host")
def _regressor(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose a TreeEnsembleRegressor."""
    targets = int(node.attributes.get("n_targets", 1))
    forest = forest_of_lists(node.attributes, "target", targets)
    aggregate = node.attributes.get("aggregate_function", "SUM")
    return _ends(rewriter, node, forest, base_values_of(node.attributes), aggregate, "")


@form("TreeEnsemble", f"{MEANING}; a transform of the scores on the host")
def _ensemble(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose a TreeEnsemble."""
    forest = forest_of_roots(node.attributes, int(node.attributes.get("n_targets", 1)))
    aggregate = AGGREGATES[node.attributes.get("aggregate_function", 1)]
    return _ends(rewriter, node, forest, (), aggregate, TRANSFORM_NUMBERS[node.attributes.get("post_transform", 0)])


def _ends(
    rewriter: ClassicalRewriter, node: Node, forest: Forest, base: tuple[float, ...], aggregate: str, transform: str
) -> bool:
    """Add the scores of a regression and their transform; return whether that was possible."""
    scores = _scores(rewriter, node, forest, base, aggregate)
    if scores is None:
        return False
    transform = transform or node.attributes.get("post_transform", "NONE")
    rewriter.transform(node, scores, forest.values.shape[1], node.outputs[0], transform)
    return True


@form("TreeEnsembleClassifier", f"{MEANING}, and ArgMax; labels and a transform of the scores on the host")
def _classifier(rewriter: ClassicalRewriter, node: Node) -> bool:
    """Decompose a TreeEnsembleClassifier."""
    label, result = (*node.outputs, "")[:2]
    labels = node.attributes.get("classlabels_strings") or node.attributes["classlabels_int64s"]
    forest = forest_of_lists(node.attributes, "class", len(labels))
    base = base_values_of(node.attributes)
    transform = node.attributes.get("post_transform", "NONE")
    voted = forest.votes.any(0)
    if len(labels) == 2 and not voted.all():
        one = Forest(forest.roots, forest.values.sum(1, keepdims=True), np.asarray(forest.votes.any(1, keepdims=True)))
        score = _scores(rewriter, node, one, base[-1:])
        if score is None or transform == "PROBIT":
            return False
        _two_classes(rewriter, node, score, labels, has_probabilities(forest), transform)
        return True
    if not base and not _always_voted(forest):
        return False
    scores = _scores(rewriter, node, forest, base, one_step=True)
    if scores is None:
        return False
    if label and len(labels) == 2:
        second = rewriter.add(node, "Gather", scores, rewriter.numbers(node, "second", 1, "int64"), axis=1)
        positive = rewriter.add(node, "Greater", second, rewriter.numbers(node, "threshold", 0))
        rewriter.label(node, rewriter.add(node, "Cast", positive, to=BY_NAME["int64"].code), labels, label)
    elif label:
        rewriter.label(node, rewriter.add(node, "ArgMax", scores, axis=1, keepdims=0), labels, label)
    if result:
        rewriter.transform(node, scores, len(labels), result, transform)
    return True


def _always_voted(forest: Forest) -> bool:
    """Return whether some tree gives each class a value, whatever leaf is reached."""
    voted = np.zeros(forest.votes.shape[1], bool)
    for root in forest.roots:
        leaves, pending = [], [root]
        while pending:
            place = pending.pop()
            if isinstance(place, int):
                leaves.append(place)
            else:
                pending += [place.then, place.otherwise]
        voted |= forest.votes[leaves].all(0)
    return bool(voted.all())


def _two_classes(
    rewriter: ClassicalRewriter, node: Node, score: str, labels: tuple[object, ...], probable: bool, transform: str
) -> None:
    """Add the label and the scores of two classes from one score."""
    label, result = (*node.outputs, "")[:2]
    if label:
        threshold = rewriter.numbers(node, "threshold", 0.5 if probable else 0)
        column = rewriter.add(
            node, "Squeeze", rewriter.add(node, "Greater", score, threshold),
            rewriter.numbers(node, "axes", [1], "int64"),
        )  # fmt: skip
        rewriter.label(node, rewriter.add(node, "Cast", column, to=BY_NAME["int64"].code), labels, label)
    if not result:
        return
    one = rewriter.numbers(node, "one", 1)
    rest = rewriter.add(node, "Sub", one, score) if probable else rewriter.add(node, "Neg", score)
    if transform == "LOGISTIC" and not probable:
        rewriter.add(node, "Sigmoid", rewriter.add(node, "Concat", rest, score, axis=1), result=result)
    else:
        rewriter.add(node, "Concat", rest, score, result=result, axis=1)
