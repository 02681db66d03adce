"""Linear operators of ai.onnx.ml mean what they are replaced by, and whole models of them become hardware."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import onnx
import onnx_hw
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.decompose_classical import decompose_classical
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Graph, Model, Node, Value
from onnx_hw.onnx.operators.dtypes import name_of_dtype
from support.design_bench import Bench, assert_proven, random_stall
from support.onnx_oracle import by_onnxruntime

ML = "ai.onnx.ml"
RANDOM = np.random.default_rng(5)
ROWS = RANDOM.uniform(-2, 2, (6, 4)).astype(np.float32)
ROWS[1] = 0
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
LABELS: dict[str, tuple[str, list[Any]]] = {
    "range": ("ints", [0, 1, 2]),
    "ints": ("ints", [7, -1, 3]),
    "texts": ("strings", ["x", "y", "z"]),
}


def outputs_of(node: Node, *arrays: np.ndarray) -> tuple[list[Any], list[str]]:
    """Return the outputs of a node, equal to those of what replaces it; and the operators of that."""
    values = [
        Value(name, name_of_dtype(array.dtype), array.shape) for name, array in zip(node.inputs, arrays, strict=True)
    ]
    results = tuple(Value(name, "", None) for name in node.outputs if name)
    model = Model("m", Graph("g", (node,), tuple(values), results, {}, {v.name: v for v in values}), {"": 13}, 8)
    replaced = decompose_classical(model)
    feeds = dict(zip(node.inputs, arrays, strict=True))
    wanted, actual = reference.run(model, feeds), reference.run(replaced, feeds)
    for name, array in wanted.items():
        assert actual[name].dtype == array.dtype and actual[name].shape == array.shape
        if array.dtype == object:
            assert actual[name].tolist() == array.tolist()
        else:
            np.testing.assert_allclose(actual[name], array, rtol=2e-6, atol=1e-6)
    return list(actual.values()), [each.op_type for each in replaced.graph.nodes]


def classifier(classes: int, labels: str, transform: str, outputs: tuple[str, ...] = ("label", "scores")) -> Node:
    kind, names = LABELS[labels]
    given = {
        "coefficients": tuple(RANDOM.uniform(-0.2, 0.2, 4 * classes).tolist()),
        "intercepts": tuple(RANDOM.uniform(0, 0.4, classes).tolist()) if classes > 1 else (0.0,),
        f"classlabels_{kind}": tuple(names[: max(classes, 2)]),
        "post_transform": transform,
    }
    return Node("linear", "LinearClassifier", ML, 1, ("x",), outputs, given)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_classifier(transform: str, labels: str) -> None:
    for classes in (1, 2, 3):
        if classes > 1 or transform != "PROBIT":
            _, operators = outputs_of(classifier(classes, labels, transform), ROWS)
            assert "Gemm" in operators and "LinearClassifier" not in operators


def test_linear_classifier_of_other_data_and_with_one_output() -> None:
    for x in (ROWS[0], RANDOM.integers(-3, 3, (3, 4)), ROWS.astype(np.float64)):
        outputs_of(classifier(3, "texts", "SOFTMAX"), x)
    outputs_of(classifier(3, "texts", "SOFTMAX", ("label",)), ROWS)
    outputs_of(classifier(1, "ints", "LOGISTIC", ("", "scores")), ROWS)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_linear_regressor(transform: str) -> None:
    for targets, biased in ((1, True), (3, True), (3, False)):
        given = {"coefficients": tuple(RANDOM.uniform(0, 0.2, 4 * targets).tolist()), "targets": targets}
        given |= {"intercepts": (0.3,) * targets} if biased else {}
        node = Node("linear", "LinearRegressor", ML, 1, ("x",), ("y",), {**given, "post_transform": transform})
        assert "Gemm" in outputs_of(node, np.abs(ROWS))[1]


def test_array_feature_extractor() -> None:
    node = Node("take", "ArrayFeatureExtractor", ML, 1, ("x", "y"), ("z",), {})
    assert outputs_of(node, ROWS, np.array([3, 0]))[1] == ["Gather"]
    assert "Gather" in outputs_of(node, ROWS, np.array([[3, 0]]))[1]
    assert outputs_of(node, ROWS[0], np.array([3, 0]))[1] == ["ArrayFeatureExtractor"]


def pipeline(folder: Path, *nodes: onnx.NodeProto, outputs: dict[str, int | None], features: int = 4) -> Path:
    """Write a model of a batch of any size from ``x``; an output of the type None is a sequence of maps."""
    path = folder / "m.onnx"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, features])
    results = [
        helper.make_empty_tensor_value_info(name)
        if kind is None
        else helper.make_tensor_value_info(name, kind, [None] if name == "label" else [None, None])
        for name, kind in outputs.items()
    ]
    graph = helper.make_graph(list(nodes), "g", [x], results)
    for info, kind in zip(graph.output, outputs.values(), strict=True):
        if kind is None:
            of_text = any(attribute.name == "classlabels_strings" for attribute in nodes[-1].attribute)
            info.type.sequence_type.elem_type.map_type.key_type = 8 if of_text else 7
            info.type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return path


def node(op_type: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, domain=ML, **attributes)


@pytest.mark.parametrize("labels", ["ints", "texts"])
def test_scaler_and_logistic_regression_as_skl2onnx_writes_them(tmp_path: Path, labels: str) -> None:
    """Features of very different sizes are scaled on the host; label and maps are those of onnxruntime."""
    kind, names = LABELS[labels]
    sizes = np.array([1, 0.01, 300, 20])
    samples = (RANDOM.uniform(-1, 1, (80, 4)) * sizes).astype(np.float32)
    path = pipeline(
        tmp_path,
        node("Scaler", ["x"], ["scaled"], offset=[0.1, 0.0, 3.0, -2.0], scale=(1 / sizes).tolist()),
        node("LinearClassifier", ["scaled"], ["label", "p"], post_transform="SOFTMAX", intercepts=[0.1, 0.0, -0.2],
             coefficients=RANDOM.uniform(-3, 3, 12).tolist(), **{f"classlabels_{kind}": names}),
        node("Normalizer", ["p"], ["q"], norm="L1"),
        node("ZipMap", ["q"], ["maps"], **{f"classlabels_{'int64s' if kind == 'ints' else kind}": names}),
        outputs={"label": TensorProto.INT64 if kind == "ints" else TensorProto.STRING, "maps": None},
    )  # fmt: skip
    network = flow.quantize(flow.read(path), {"x": samples[:60, None]})
    actual, wanted = golden.run(network, {"x": samples[60:, None]}), by_onnxruntime(path, {"x": samples[60:, None]})
    assert [each.op_type for each in network.head.graph.nodes] == ["Scaler", "QuantizeLinear"]
    assert [type(each.operator).__name__ for each in network.nodes] == ["MatMul", "Requantize", "ArgMax"]
    assert (actual["label"] == np.array(wanted["label"])).mean() > 0.9
    for mine, other in zip(actual["maps"], wanted["maps"], strict=True):
        assert mine[0].keys() == other[0].keys() == set(names)
        assert max(abs(mine[0][name] - other[0][name]) for name in names) < 0.05


def test_the_model_as_a_function_returns_what_onnxruntime_returns(tmp_path: Path) -> None:
    """Texts in an array, and a list of maps: of several rows, of one, and of one without its batch."""
    path = pipeline(
        tmp_path,
        node("LinearClassifier", ["x"], ["label", "p"], coefficients=[1.0, 0, 0, 1, 0, -1, 1, 0], intercepts=[0.0, 0],
             post_transform="LOGISTIC", classlabels_strings=["no", "yes"]),
        node("ZipMap", ["p"], ["maps"], classlabels_strings=["no", "yes"]),
        outputs={"label": TensorProto.STRING, "maps": None},
    )  # fmt: skip
    network = onnx_hw.quantize(path, RANDOM.uniform(-2, 2, (400, 4)).astype(np.float32))
    labels, maps = onnxruntime.InferenceSession(path.read_bytes()).run(None, {"x": ROWS})
    outputs = network(ROWS)
    assert outputs["label"].tolist() == labels.tolist()
    assert len(outputs["maps"]) == len(maps)
    for mine, other in zip(outputs["maps"], maps, strict=True):
        assert mine == pytest.approx(other, abs=0.03)
    assert "label: object[6], maps: 6 maps" in repr(outputs)
    single = network(ROWS[0])
    assert single["maps"] == outputs["maps"][:1] and single["label"] == labels[0] and "1 maps" in repr(single)


def test_features_of_different_sizes_get_the_bits_that_the_label_needs(tmp_path: Path) -> None:
    """No output holds the scores: those behind the label are judged nevertheless."""
    sizes = np.array([1, 3, 900, 20])
    samples = (RANDOM.uniform(-1, 1, (80, 4)) * sizes).astype(np.float32)
    coefficients = (RANDOM.uniform(1, 3, (3, 4)) * RANDOM.choice([-1, 1], (3, 4)) / sizes).reshape(-1).tolist()
    path = pipeline(
        tmp_path,
        node("LinearClassifier", ["x"], ["class", "p"], coefficients=coefficients, intercepts=[0.1, 0.0, -0.2],
             post_transform="SOFTMAX", classlabels_ints=[0, 1, 2]),
        helper.make_node("Cast", ["class"], ["label"], to=TensorProto.INT64),
        outputs={"label": TensorProto.INT64},
    )  # fmt: skip
    network = flow.quantize(flow.read(path), {"x": samples[:60, None]})
    actual, wanted = golden.run(network, {"x": samples[60:, None]}), by_onnxruntime(path, {"x": samples[60:, None]})
    assert (actual["label"] == wanted["label"]).mean() > 0.9


def test_a_scaler_behind_a_product_is_hardware(tmp_path: Path) -> None:
    weights = {"coefficients": RANDOM.uniform(-1, 1, 12).tolist(), "targets": 3}
    path = pipeline(
        tmp_path,
        node("LinearRegressor", ["x"], ["y"], **weights),
        node("Scaler", ["y"], ["scaled"], offset=[0.1, 0.0, 3.0], scale=[1.0, 2.0, 0.5]),
        node("LinearRegressor", ["scaled"], ["z"], coefficients=[1.0, 2.0, -1.0]),
        outputs={"z": TensorProto.FLOAT},
    )
    network = flow.quantize(flow.read(path), {"x": ROWS[:, None]})
    assert [type(each.operator).__name__ for each in network.nodes].count("MatMul") == 2
    actual, wanted = golden.run(network, {"x": ROWS[:, None]}), by_onnxruntime(path, {"x": ROWS[:, None]})
    np.testing.assert_allclose(actual["z"], wanted["z"], atol=0.3)


def test_a_model_without_product_is_refused(tmp_path: Path) -> None:
    path = pipeline(tmp_path, node("Scaler", ["x"], ["y"], offset=[0.0], scale=[2.0]), outputs={"y": TensorProto.FLOAT})
    with pytest.raises(UserError, match="must have an operator that becomes hardware"):
        flow.quantize(flow.read(path), {"x": ROWS[:, None]})


KERNELS = {"LINEAR": [0.0] * 3, "POLY": [0.5, 0.25, 3.0], "RBF": [0.3, 0.0, 0.0], "SIGMOID": [0.2, -0.1, 0.0]}


def machine(kernel: str, each: tuple[int, ...], outputs: tuple[str, ...] = ("label", "scores")) -> dict[str, Any]:
    """Attributes of a classifier with numbers of support vectors for its classes; one number: those of a regressor."""
    count, scores = sum(each), len(each) * (len(each) - 1) // 2 if len(each) > 1 else 1
    given: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": tuple(KERNELS[kernel]),
        "support_vectors": tuple(RANDOM.uniform(-1, 1, 4 * count).tolist()),
        "coefficients": tuple(RANDOM.uniform(-1, 1, count * max(1, len(each) - 1)).tolist()),
        "rho": tuple(RANDOM.uniform(-0.2, 0.2, scores).tolist()),
    }
    return given | ({"n_supports": count} if len(each) == 1 else {"vectors_per_class": each})


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors(kernel: str) -> None:
    one = Node("", "SVMRegressor", ML, 1, ("x",), ("y",), machine(kernel, (5,)))
    outputs_of(one, ROWS)
    outputs_of(replace(one, attributes={**one.attributes, "one_class": 1}), ROWS)
    for each, labels in (((2, 3), (4, -1)), ((2, 1, 3), ("x", "y", "z"))):
        kind = "strings" if isinstance(labels[0], str) else "ints"
        given = {**machine(kernel, each), f"classlabels_{kind}": labels}
        coupled = {"prob_a": (-1.5,) * len(given["rho"]), "prob_b": (0.25,) * len(given["rho"])}
        outputs_of(Node("", "SVMClassifier", ML, 1, ("x",), ("label", "scores"), {**given, **coupled}), ROWS)
        _, operators = outputs_of(Node("", "SVMClassifier", ML, 1, ("x",), ("label", "scores"), given), ROWS)
        assert operators.count("Gemm") == (1 if kernel == "LINEAR" else 2) and "SVMClassifier" not in operators


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF"])
def test_a_machine_becomes_hardware(kernel: str, tmp_path: Path) -> None:
    given = machine(kernel, (6, 5, 4))
    vectors = node("SVMClassifier", ["x"], ["label", "scores"], classlabels_ints=[0, 1, 2], **given)
    path = pipeline(tmp_path, vectors, outputs={"label": TensorProto.INT64, "scores": TensorProto.FLOAT})
    rows = RANDOM.uniform(-2, 2, (300, 1, 4)).astype(np.float32)
    network = flow.quantize(flow.read(path), {"x": rows[:200]})
    found, wanted = golden.run(network, {"x": rows[200:]}), by_onnxruntime(path, {"x": rows[200:]})
    assert (found["label"] == wanted["label"]).mean() >= 0.97
    error = found["scores"].reshape(wanted["scores"].shape) - wanted["scores"]
    assert 10 * np.log10((wanted["scores"] ** 2).sum() / (error**2).sum()) >= 28
    design = flow.schedule(network, multipliers=4)
    assert_proven(Bench(design).prove(random_stall(design, 2, seed=1), frames=2))
