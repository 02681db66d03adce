"""Trees mean what they are replaced by, and become hardware that decides as onnxruntime does."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.decompose_classical import decompose_classical
from onnx_hw.onnx.evaluate import reference
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.quantization.scheme import Precision, Scheme
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from support.design_bench import Bench, assert_proven, random_stall
from support.onnx_oracle import by_onnxruntime
from support.random_trees import MODES, as_roots, random_trees
from support.targets import ecp5_at

ML = "ai.onnx.ml"
RANDOM = np.random.default_rng(8)
ROWS = RANDOM.integers(-4, 5, (60, 4)).astype(np.float32)


def model_of(folder: Path, *nodes: onnx.NodeProto, version: int = 1, features: int = 4, rows: int | None = None,
             outputs: tuple[str, ...] = ("y",)) -> Path:  # fmt: skip
    """Write a model of a batch of any size; the output ``label`` holds integers."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, features])
    results = [
        helper.make_tensor_value_info(name, TensorProto.INT64, [rows])
        if name == "label"
        else helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, None])
        for name in outputs
    ]
    graph = helper.make_graph(list(nodes), "g", [x], results)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, version)]
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return path


def ensemble(op_type: str, *outputs: str, source: str = "x", **attributes: Any) -> onnx.NodeProto:
    stored = {k: numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
    return helper.make_node(op_type, [source], list(outputs), domain=ML, **stored)


def decided(path: Path, rows: np.ndarray, scheme: Scheme | None = None) -> tuple[Network, dict[str, Any]]:
    """Quantize a model of trees; return the network and golden's outputs for the rows, without their batch."""
    network = flow.quantize(flow.read(path), {"x": rows[:8, None]}, scheme)
    return network, {name: np.concatenate(list(of)) for name, of in golden.run(network, {"x": rows[:, None]}).items()}


def expected(path: Path, rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: np.concatenate([np.asarray(row) for row in of])
            for name, of in by_onnxruntime(path, {"x": rows[:, None]}).items()}  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]), st.booleans())
def test_the_same_leaves_in_every_mode(seed: int, aggregate: str, missing: bool) -> None:
    """The decomposition equals the node for numbers that are close to no threshold, and for missing ones."""
    generator = np.random.default_rng(seed)
    trees = random_trees(generator, "target", modes=MODES, missing=missing, depth=4)
    given_node = ensemble("TreeEnsembleRegressor", "y", n_targets=2, aggregate_function=aggregate,
                          base_values=[0.5, -0.25], **trees)  # fmt: skip
    rows = np.where(generator.random(ROWS.shape) < 0.1 * missing, np.nan, ROWS).astype(np.float32)
    with TemporaryDirectory() as folder:
        model = flow.read(model_of(Path(folder), given_node, rows=len(rows)))
    replaced = decompose_classical(model)
    assert any(node.op_type == "ReachedLeaves" for node in replaced.graph.nodes)
    wanted, actual = (reference.run(each, {"x": rows})["y"] for each in (model, replaced))
    np.testing.assert_allclose(actual, wanted, atol=3e-4)


def test_a_classifier_decides_as_onnxruntime_does(tmp_path: Path) -> None:
    """The label, and sums that are as exact as the table of leaves: 16 bits."""
    trees = random_trees(RANDOM, "class", trees=4, depth=4, targets=3, modes=MODES)
    node = ensemble("TreeEnsembleClassifier", "label", "y", classlabels_int64s=[5, 3, 9], **trees)
    path = model_of(tmp_path, node, outputs=("label", "y"))
    (network, actual), wanted = decided(path, ROWS), expected(path, ROWS)
    assert [each.op_type for each in network.head.graph.nodes] == ["Gather", "Imputer", "Scaler", "QuantizeLinear"]
    np.testing.assert_allclose(actual["y"], wanted["y"], atol=2e-4)
    two_best = np.sort(wanted["y"], axis=1)[:, -2:]
    clear = two_best[:, 1] - two_best[:, 0] > 0.05
    assert clear.mean() > 0.8 and (actual["label"] == wanted["label"])[clear].all()


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_two_classes(low: float, tmp_path: Path) -> None:
    for targets, transform in ((1, "NONE"), (1, "LOGISTIC"), (2, "NONE")):
        if transform == "LOGISTIC" and low >= 0:
            continue
        trees = random_trees(RANDOM, "class", trees=3, targets=targets, low=low)
        trees["class_weights"] = [weight / 3 for weight in trees["class_weights"]]
        node = ensemble("TreeEnsembleClassifier", "label", "y", classlabels_int64s=[0, 1], post_transform=transform,
                        **trees)  # fmt: skip
        path = model_of(tmp_path, node, outputs=("label", "y"))
        (_, actual), wanted = decided(path, ROWS), expected(path, ROWS)
        np.testing.assert_allclose(actual["y"], wanted["y"], atol=2e-4)
        assert (actual["label"] == wanted["label"]).mean() > 0.95


@pytest.mark.parametrize("aggregate", [1, 3])
def test_a_regression_of_either_form(aggregate: int, tmp_path: Path) -> None:
    trees = random_trees(RANDOM, "target", trees=3, targets=1)
    for op_type, version, given_trees, function in (
        ("TreeEnsemble", 5, as_roots(trees), aggregate),
        ("TreeEnsembleRegressor", 1, trees, {1: "SUM", 3: "MAX"}[aggregate]),
    ):
        path = model_of(tmp_path, ensemble(op_type, "y", n_targets=1, aggregate_function=function, **given_trees),
                        version=version)  # fmt: skip
        (_, actual), wanted = decided(path, ROWS), expected(path, ROWS)
        np.testing.assert_allclose(actual["y"], wanted["y"], atol=2e-4 if aggregate == 1 else 0.02)


def test_numbers_of_leaves_are_exact(tmp_path: Path) -> None:
    """Isolation forests read the leaf's number as an integer."""
    trees = random_trees(RANDOM, "target", trees=1, targets=1, depth=5)
    trees["target_weights"] = [float(k) for k in range(len(trees["target_weights"]))]
    path = model_of(tmp_path, ensemble("TreeEnsembleRegressor", "y", n_targets=1, **trees))
    np.testing.assert_array_equal(decided(path, ROWS)[1]["y"], expected(path, ROWS)["y"])


def test_thresholds_of_very_different_sizes_stay_apart(tmp_path: Path) -> None:
    """A feature comes once for each size, and a threshold alone decides between neighbours of float32."""
    trees = random_trees(RANDOM, "target", trees=1, depth=6, features=1, targets=1)
    inner = [k for k, mode in enumerate(trees["nodes_modes"]) if mode != "LEAF"]
    values = np.float32(10.0) ** (np.arange(len(inner)) % 9 - 4).astype(np.float32) * RANDOM.choice([-1, 1], len(inner))
    for k, value in zip(inner, values, strict=True):
        trees["nodes_values"][k] = float(value)
    path = model_of(tmp_path, ensemble("TreeEnsembleRegressor", "y", n_targets=1, **trees), features=1)
    sides = np.concatenate([values * np.float32(0.7), values, values * np.float32(1.3)])
    rows = sides.astype(np.float32)[:, None]
    (_, actual), wanted = decided(path, rows), expected(path, rows)
    np.testing.assert_allclose(actual["y"], wanted["y"], atol=1e-4)


def test_a_tree_behind_a_product_compares_its_sums(tmp_path: Path) -> None:
    weights = helper.make_node("LinearRegressor", ["x"], ["z"], domain=ML, targets=4,
                               coefficients=RANDOM.uniform(-1, 1, 16).tolist())  # fmt: skip
    trees = random_trees(RANDOM, "target", trees=2, targets=1)
    path = model_of(tmp_path, weights, ensemble("TreeEnsembleRegressor", "y", source="z", n_targets=1, **trees))
    rows = RANDOM.uniform(-4, 4, (400, 4)).astype(np.float32)
    network, actual = decided(path, rows)
    assert not any(node.op_type == "Scaler" for node in network.head.graph.nodes)
    assert any(isinstance(node.operator, Depthwise) for node in network.nodes)
    error = np.abs(actual["y"] - expected(path, rows)["y"])
    assert (error > 1e-3).mean() <= 0.005, "with 8 bits, three times as many rows take another way"


def test_the_bits_that_the_user_asks_for(tmp_path: Path) -> None:
    path = model_of(
        tmp_path, ensemble("TreeEnsembleRegressor", "y", n_targets=1, **random_trees(RANDOM, "target", targets=1))
    )
    for scheme, bits in ((None, 16), (Scheme(data=Precision(6)), 6)):
        network, actual = decided(path, ROWS, scheme)
        (tensor,) = network.entries.values()
        assert tensor.dtype.bits == bits
        np.testing.assert_allclose(actual["y"], expected(path, ROWS)["y"], atol=2e-4)


@pytest.mark.parametrize("lanes", [2, 40])
def test_the_circuit_under_stalls(lanes: int, tmp_path: Path) -> None:
    trees = random_trees(RANDOM, "class", trees=3, depth=3, targets=3, modes=MODES)
    node = ensemble("TreeEnsembleClassifier", "label", "y", classlabels_int64s=[0, 1, 2], **trees)
    network, _ = decided(model_of(tmp_path, node, outputs=("label", "y")), ROWS)
    design = schedule_network(network, Budget(mac_lanes=lanes), target=ecp5_at(80))[0]
    assert_proven(Bench(design).prove(random_stall(design, 3, lanes), frames=3, seed=lanes))


def test_trees_that_no_comparisons_make_stay_on_the_host(tmp_path: Path) -> None:
    """Equality that missing values fulfil; the least value where a leaf has none."""
    of_equality = random_trees(RANDOM, "target", modes=("BRANCH_EQ",))
    of_equality["nodes_missing_value_tracks_true"] = [1] * len(of_equality["nodes_modes"])
    without = {**random_trees(RANDOM, "target", every=False), "aggregate_function": "MIN"}
    for trees in (of_equality, without):
        path = model_of(tmp_path, ensemble("TreeEnsembleRegressor", "y", n_targets=2, **trees))
        with pytest.raises(UserError, match="must have an operator that becomes hardware"):
            decided(path, ROWS)
