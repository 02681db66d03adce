"""Trees of ``ai.onnx.ml``: TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble.

The scores of two classes, which ONNX leaves open, are those of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_hw.onnx.operators.classical_features import DOMAIN
from onnx_hw.onnx.operators.classical_linear import row_shape
from onnx_hw.onnx.operators.classical_scores import transformed
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.facts import Facts
from onnx_hw.onnx.operators.registry import Floats, Ints, Strings, earlier, operator
from onnx_hw.onnx.operators.tensor_type import TensorType
from onnx_hw.onnx.operators.tree_ensemble import (
    AGGREGATES,
    TRANSFORM_NUMBERS,
    Forest,
    forest_of_lists,
    forest_of_roots,
)

NODES_AS_TENSORS = ("base_values_as_tensor", "nodes_hitrates_as_tensor", "nodes_values_as_tensor")
"""Attributes of ``tree_nodes`` that the first versions of both operators lack."""


def tree_nodes(
    *,
    nodes_falsenodeids: Ints | None = None,
    nodes_featureids: Ints | None = None,
    nodes_hitrates: Floats | None = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints | None = None,
    nodes_modes: Strings | None = None,
    nodes_nodeids: Ints | None = None,
    nodes_treeids: Ints | None = None,
    nodes_truenodeids: Ints | None = None,
    nodes_values: Floats | None = None,
    nodes_values_as_tensor: Array | None = None,
    base_values: Floats | None = None,
    base_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
) -> None:
    """Declare the attributes that both older operators have; ``forest_of_lists`` reads them."""


def ensemble_classifier_type(
    x: TensorType,
    *,
    classlabels_int64s: Ints | None = None,
    classlabels_strings: Strings | None = None,
    **_: Any,
) -> tuple[TensorType, TensorType]:
    rows = row_shape(x.shape)[0]
    kind: Any = object if classlabels_strings else np.int64
    count = len(classlabels_strings or classlabels_int64s or ())
    return TensorType(np.dtype(kind), (rows,)), TensorType(np.dtype(np.float32), (rows, max(2, count)))


@operator(since=3, domain=DOMAIN, types=ensemble_classifier_type, attributes_of=tree_nodes, facts=Facts(jumps=True))
def TreeEnsembleClassifier(
    x: Array,
    *,
    class_ids: Ints | None = None,
    class_nodeids: Ints | None = None,
    class_treeids: Ints | None = None,
    class_weights: Floats | None = None,
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: Ints | None = None,
    classlabels_strings: Strings | None = None,
    post_transform: str = "NONE",
    **nodes: Any,
) -> tuple[Array, Array]:
    """Return the label of the greatest score, and all scores."""
    labels = np.array(classlabels_strings, object) if classlabels_strings else np.array(classlabels_int64s, np.int64)
    lists = {"class_ids": class_ids, "class_nodeids": class_nodeids, "class_treeids": class_treeids,
             "class_weights": class_weights, "class_weights_as_tensor": class_weights_as_tensor}  # fmt: skip
    forest = forest_of_lists({**nodes, **lists}, "class", len(labels))
    scores, some = forest.combined(rows_of(x), "SUM")
    base = base_values_of(nodes)
    if len(labels) == 2 and (not forest.votes[:, 1].any() or not forest.votes[:, 0].any()):
        score = scores.sum(1) + (base[-1] if base else 0)
        return _of_one_score(forest, score.astype(np.float32), labels, post_transform)
    if base:
        scores, some = scores + np.array(base), np.ones_like(some)
    scores = scores.astype(np.float32)
    best = np.where(some, scores, -np.inf).argmax(1)
    if len(labels) == 2:
        best = (scores[:, 1] > 0).astype(np.int64)
    return labels[best], transformed(scores, post_transform)


def _of_one_score(forest: Forest, score: Array, labels: Array, post_transform: str) -> tuple[Array, Array]:
    """Return the labels and the scores of two classes, of which only one has values: probabilities, or any numbers."""
    if has_probabilities(forest):
        both, positive = np.stack([1 - score, score], 1), score > 0.5
    else:
        both, positive = np.stack([-score, score], 1), score > 0
    if post_transform == "PROBIT":
        raise ValueError("PROBIT must have values for each of the two classes")
    if post_transform != "LOGISTIC" or has_probabilities(forest):
        return labels[positive.astype(np.int64)], both
    return labels[positive.astype(np.int64)], transformed(both, "LOGISTIC")


def has_probabilities(forest: Forest) -> bool:
    """Return whether no leaf has a negative value, so that onnxruntime takes scores of one class for probabilities."""
    return bool((forest.values >= 0).all())


earlier(
    TreeEnsembleClassifier,
    since=1,
    without=("class_weights_as_tensor", *NODES_AS_TENSORS),
)


def ensemble_regressor_type(x: TensorType, *, n_targets: int = 1, **_: Any) -> TensorType:
    return TensorType(np.dtype(np.float32), (row_shape(x.shape)[0], n_targets))


@operator(since=3, domain=DOMAIN, types=ensemble_regressor_type, attributes_of=tree_nodes, facts=Facts(jumps=True))
def TreeEnsembleRegressor(
    x: Array,
    *,
    aggregate_function: str = "SUM",
    n_targets: int = 1,
    target_ids: Ints | None = None,
    target_nodeids: Ints | None = None,
    target_treeids: Ints | None = None,
    target_weights: Floats | None = None,
    target_weights_as_tensor: Array | None = None,
    post_transform: str = "NONE",
    **nodes: Any,
) -> Array:
    """Return the combined values of the leaves that are reached, for each target."""
    if aggregate_function not in AGGREGATES:
        raise ValueError(f"aggregate_function must be one of {', '.join(AGGREGATES)}, not {aggregate_function}")
    lists = {"target_ids": target_ids, "target_nodeids": target_nodeids, "target_treeids": target_treeids,
             "target_weights": target_weights, "target_weights_as_tensor": target_weights_as_tensor}  # fmt: skip
    forest = forest_of_lists({**nodes, **lists}, "target", n_targets)
    scores, _ = forest.combined(rows_of(x), aggregate_function)
    base = base_values_of(nodes)
    return transformed((scores + np.array(base or (0.0,))).astype(np.float32), post_transform)


earlier(
    TreeEnsembleRegressor,
    since=1,
    without=("target_weights_as_tensor", *NODES_AS_TENSORS),
)


def ensemble_type(x: TensorType, *, n_targets: int = 1, **_: Any) -> TensorType:
    return TensorType(x.dtype, (row_shape(x.shape)[0], n_targets))


@operator(since=5, domain=DOMAIN, types=ensemble_type, facts=Facts(jumps=True))
def TreeEnsemble(
    x: Array,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Ints,
    leaf_weights: Array,
    membership_values: Array | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Ints,
    nodes_falsenodeids: Ints,
    nodes_featureids: Ints,
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: Ints | None = None,
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: Ints,
    nodes_truenodeids: Ints,
    post_transform: int = 0,
    tree_roots: Ints,
) -> Array:
    """Return the combined values of the leaves that are reached, for each target."""
    del nodes_hitrates  # says how often training data came by
    if not 0 <= aggregate_function < len(AGGREGATES) or not 0 <= post_transform < len(TRANSFORM_NUMBERS):
        raise ValueError("aggregate_function must be within 0..3, and post_transform within 0..4")
    forest = forest_of_roots(
        {
            "leaf_targetids": leaf_targetids,
            "leaf_weights": leaf_weights,
            "membership_values": membership_values,
            "nodes_falseleafs": nodes_falseleafs,
            "nodes_falsenodeids": nodes_falsenodeids,
            "nodes_featureids": nodes_featureids,
            "nodes_missing_value_tracks_true": nodes_missing_value_tracks_true,
            "nodes_modes": nodes_modes,
            "nodes_splits": nodes_splits,
            "nodes_trueleafs": nodes_trueleafs,
            "nodes_truenodeids": nodes_truenodeids,
            "tree_roots": tree_roots,
        },
        n_targets,
    )
    scores, _ = forest.combined(rows_of(x), AGGREGATES[aggregate_function])
    return transformed(scores.astype(x.dtype), TRANSFORM_NUMBERS[post_transform])


def rows_of(x: Array) -> Array:
    """Return data as rows of floats of its own width; integers become float32."""
    rows = x.reshape(row_shape(x.shape))
    return rows if rows.dtype.kind == "f" else rows.astype(np.float32)


def base_values_of(nodes: Mapping[str, Any]) -> tuple[float, ...]:
    """Return what is added to the scores of each class or target; nothing where no attribute says so."""
    tensor = nodes.get("base_values_as_tensor")
    return tuple(nodes.get("base_values") or ()) if tensor is None else tuple(np.asarray(tensor, float).reshape(-1))
