"""Random trees, as the attributes of ai.onnx.ml describe them."""

from __future__ import annotations

from typing import Any

import numpy as np

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def random_trees(
    generator: np.random.Generator,
    kind: str,
    *,
    trees: int = 3,
    depth: int = 3,
    features: int = 4,
    targets: int = 2,
    modes: tuple[str, ...] = MODES[:1],
    low: float = -1.0,
    missing: bool = False,
    every: bool = True,
) -> dict[str, Any]:
    """Return the lists of a TreeEnsembleClassifier (``class``) or TreeEnsembleRegressor (``target``).

    Thresholds are halves between −3.5 and 3.5 (for equality whole numbers), so that whole numbers are never close to
    one.

    Args:
        low: least value of a leaf; the greatest is 1.
        missing: whether some nodes send NaN the way of true conditions.
        every: whether each leaf has a value for every target; otherwise each has one.
    """
    nodes: dict[str, list[Any]] = {
        name: []
        for name in (
            "treeids",
            "nodeids",
            "featureids",
            "modes",
            "values",
            "truenodeids",
            "falsenodeids",
            "missing_value_tracks_true",
        )
    }
    leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        pending, count = [(0, 0)], 1
        while pending:
            number, level = pending.pop(0)
            is_leaf = level == depth or (level > 0 and generator.random() < 0.25)
            mode = "LEAF" if is_leaf else str(generator.choice(modes))
            ways = (0, 0) if is_leaf else (count, count + 1)
            threshold = float(generator.integers(-3, 4)) + (0.0 if mode.endswith("EQ") and mode[7:] != "LEQ" else 0.5)
            row = (tree, number, 0 if is_leaf else int(generator.integers(features)), mode, threshold, *ways)
            tracks = int(missing and mode != "BRANCH_EQ" and generator.random() < 0.5)
            for name, entry in zip(nodes, (*row, tracks), strict=True):
                nodes[name].append(entry)
            if is_leaf:
                for target in range(targets) if every else [int(generator.integers(targets))]:
                    value = float(np.float32(generator.uniform(low, 1)))
                    for name, entry in zip(leaves, (tree, number, target, value), strict=True):
                        leaves[name].append(entry)
            else:
                pending += [(count, level + 1), (count + 1, level + 1)]
                count += 2
    return {f"nodes_{name}": of for name, of in nodes.items()} | {f"{kind}_{name}": of for name, of in leaves.items()}


def as_roots(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a TreeEnsemble from those of a TreeEnsembleRegressor whose leaves have one target."""
    numbers = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4, "BRANCH_NEQ": 5}
    keys = list(zip(attributes["nodes_treeids"], attributes["nodes_nodeids"], strict=True))
    leaf = {
        key: k for k, key in enumerate(zip(attributes["target_treeids"], attributes["target_nodeids"], strict=True))
    }
    inner = {key: k for k, key in enumerate(key for key in keys if key not in leaf)}
    rows = [k for k, key in enumerate(keys) if key in inner]
    result: dict[str, Any] = {
        "tree_roots": [inner[key] for key in keys if key[1] == 0],
        "nodes_featureids": [attributes["nodes_featureids"][k] for k in rows],
        "nodes_splits": np.array([attributes["nodes_values"][k] for k in rows], np.float32),
        "nodes_modes": np.array([numbers[attributes["nodes_modes"][k]] for k in rows], np.uint8),
        "leaf_targetids": attributes["target_ids"],
        "leaf_weights": np.array(attributes["target_weights"], np.float32),
    }
    for way in ("true", "false"):
        ends = [(keys[k][0], attributes[f"nodes_{way}nodeids"][k]) for k in rows]
        result[f"nodes_{way}nodeids"] = [leaf.get(end, inner.get(end)) for end in ends]
        result[f"nodes_{way}leafs"] = [int(end in leaf) for end in ends]
    return result
