"""Trees of ai.onnx.ml against onnxruntime, of every mode, combination and transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx import numpy_helper
from onnx_hw.messages.errors import UserError
from support.random_trees import MODES, as_roots, random_trees
from support.single_node_models import assert_agrees, ours, theirs

ML = "ai.onnx.ml"
RANDOM = np.random.default_rng(29)
ROWS = RANDOM.integers(-4, 5, (40, 4)).astype(np.float32)
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]


def agrees(op_type: str, x: np.ndarray, outputs: int = 1, version: int = 1, **attributes: Any) -> None:
    assert_agrees(op_type, [x], version=version, domain=ML, outputs=outputs, rtol=1e-4, atol=1e-5, **attributes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("missing", [False, True])
def test_modes_and_missing_values(mode: str, missing: bool) -> None:
    rows = np.where(RANDOM.random(ROWS.shape) < 0.2, np.nan, ROWS).astype(np.float32)
    trees = random_trees(RANDOM, "target", trees=4, targets=1, modes=(mode,), missing=missing)
    agrees("TreeEnsembleRegressor", rows, n_targets=1, **trees)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_regressor(aggregate: str, targets: int) -> None:
    trees = random_trees(RANDOM, "target", targets=targets, modes=MODES, low=0.0)
    for transform in TRANSFORMS if targets > 1 else ["NONE", "PROBIT"]:
        share = {name: [w / 4 for w in of] if name == "target_weights" else of for name, of in trees.items()}
        agrees("TreeEnsembleRegressor", ROWS, n_targets=targets, aggregate_function=aggregate,
               post_transform=transform, **share)  # fmt: skip
    base = [0.25, -1.0, 0.5][:targets]
    agrees(
        "TreeEnsembleRegressor", ROWS[:1], n_targets=targets, aggregate_function=aggregate, base_values=base, **trees
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("classes", [2, 3])
def test_classifier(transform: str, classes: int) -> None:
    for low in (0.0, -1.0):
        trees = random_trees(RANDOM, "class", targets=classes, modes=MODES, low=low)
        labels: dict[str, Any] = {"classlabels_int64s": [5, -1, 7] if classes > 2 else [0, 1]}
        for base in ({}, {"base_values": [0.5, -0.25, 0.125]}) if classes > 2 else ({},):
            agrees("TreeEnsembleClassifier", ROWS, 2, post_transform=transform, **labels, **base, **trees)
    texts = {"classlabels_strings": ["a", "b", "c"][:classes]}
    mine = ours("TreeEnsembleClassifier", [ROWS], version=1, domain=ML, outputs=2, **texts, **trees)
    other = theirs("TreeEnsembleClassifier", [ROWS], [np.dtype(object), np.dtype(np.float32)], version=1, domain=ML,
                   outputs=2, **texts, **trees)  # fmt: skip
    assert mine[0].tolist() == other[0].tolist()


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_two_classes_of_which_one_has_values(transform: str, low: float) -> None:
    """Values that are not negative are taken for probabilities."""
    trees = random_trees(RANDOM, "class", trees=2, targets=1, low=low)
    trees["class_weights"] = [weight / 2 for weight in trees["class_weights"]]
    for base in ({}, {"base_values": [0.125]}):
        if transform == "NONE" or low < 0:
            agrees("TreeEnsembleClassifier", ROWS, 2, classlabels_int64s=[3, 4], post_transform=transform, **base,
                   **trees)  # fmt: skip


def test_classes_without_any_value_never_win() -> None:
    trees = random_trees(RANDOM, "class", trees=2, targets=3, low=-1.0, every=False)
    trees["class_weights"] = [-abs(weight) for weight in trees["class_weights"]]
    agrees("TreeEnsembleClassifier", ROWS, 2, classlabels_int64s=[0, 1, 2], **trees)


@pytest.mark.parametrize("aggregate", [0, 1, 2, 3])
def test_tree_ensemble(aggregate: int) -> None:
    trees = as_roots(random_trees(RANDOM, "target", targets=2, every=False, modes=MODES, trees=5))
    stored = {k: numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v for k, v in trees.items()}
    for transform, there in ((0, 0), (1, 2), (2, 1), (3, 3)):  # onnxruntime exchanges two of ONNX's numbers
        rest = {"n_targets": 2, "aggregate_function": aggregate}
        (mine,) = ours("TreeEnsemble", [ROWS], version=5, domain=ML, **trees, **rest, post_transform=transform)
        (other,) = theirs("TreeEnsemble", [ROWS], [np.dtype(np.float32)], version=5, domain=ML, **stored, **rest,
                          post_transform=there)  # fmt: skip
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_faults_of_the_lists() -> None:
    trees = random_trees(RANDOM, "target", targets=1, trees=1)
    for change, message in (
        ({"nodes_values": trees["nodes_values"][1:]}, "all lists of nodes must have one length"),
        ({"nodes_truenodeids": [0, *trees["nodes_truenodeids"][1:]]}, "must not be below itself"),
        ({"nodes_truenodeids": [99, *trees["nodes_truenodeids"][1:]]}, "must be nodes of its tree"),
        ({"nodes_modes": ["BRANCH_XOR", *trees["nodes_modes"][1:]]}, "a mode must be"),
        ({"target_ids": [7, *trees["target_ids"][1:]]}, "must name leaves"),
        ({"target_weights": trees["target_weights"][1:]}, "all lists of leaves must have one length"),
        ({"aggregate_function": "MEDIAN"}, "aggregate_function must be one of"),
    ):
        with pytest.raises(UserError, match=message):
            ours("TreeEnsembleRegressor", [ROWS], version=1, domain=ML, **{**trees, **change})
