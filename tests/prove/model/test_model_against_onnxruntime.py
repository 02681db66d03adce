"""Link 1: what only a second reader of the file can see, and what is none of its business."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.messages.errors import ExitCode, UserError
from onnx_hw.onnx.operators import registry
from onnx_hw.onnx.operators.softmax import softmax as softmax_of
from onnx_hw.onnx.parse import tensors
from onnx_hw.prove.model import onnxruntime_process, onnxruntime_witness
from onnx_hw.prove.model.onnxruntime_witness import Witness, compare_with_onnxruntime
from onnx_hw.report.proof_chain import FAILED, LEFT_OUT, PROVEN, model_reference, witness_in_short
from onnx_hw.report.read import read_report
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.stage import Stage
from support.fixture_paths import EXAMPLES

Operator = Callable[..., np.ndarray]


def write(
    folder: Path, nodes: list[onnx.NodeProto], shape: list[int], constants: dict[str, np.ndarray], opset: int = 17
) -> Path:
    """Write a model from ``x`` to ``y``."""
    tensors = [
        array if isinstance(array, onnx.TensorProto) else numpy_helper.from_array(array, name)
        for name, array in constants.items()
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))
    graph = helper.make_graph(nodes, "graph", [x], [y], tensors)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def witness_of(path: Path, seed: int = 1) -> Witness:
    model = flow.read(path)
    generator = np.random.Generator(np.random.PCG64(seed))
    shape = model.frame.model.graph.inputs[0].shape
    frames = [{"x": generator.normal(size=shape).astype(np.float32)} for _ in range(2)]
    return compare_with_onnxruntime(path, model, frames, model.frame.batch)


def softmax(folder: Path) -> Path:
    """Before opset 13, Softmax is over all axes from the second on."""
    return write(folder, [helper.make_node("Softmax", ["x"], ["y"], axis=1)], [1, 3, 4], {}, opset=11)


def nibbles(folder: Path) -> Path:
    weights = helper.make_tensor("w", TensorProto.INT4, [4, 2], [1, -2, 3, 7, -8, 5, 0, 4])
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["real"]),
        helper.make_node("MatMul", ["x", "real"], ["y"]),
    ]
    return write(folder, nodes, [1, 4], {"w": weights, "scale": np.float32(0.5)}, opset=21)  # type: ignore[dict-item]


def leaky(folder: Path) -> Path:
    return write(folder, [helper.make_node("LeakyRelu", ["x"], ["y"])], [1, 64], {}, opset=16)


def normalized(folder: Path) -> Path:
    parameters = {
        name: np.float32(array)
        for name, array in {"scale": [1, 2], "bias": [0, 1], "mean": [0.5, -1], "variance": [1, 0.3]}.items()
    }
    node = helper.make_node("BatchNormalization", ["x", *parameters], ["y"])
    return write(folder, [node], [1, 2, 5, 5], parameters, opset=15)


def quantized(folder: Path) -> Path:
    """Quantizers around a product, whose results are at ties now and then."""
    generator = np.random.Generator(np.random.PCG64(3))
    constants = {
        "weights": generator.integers(-127, 128, (32, 64)).astype(np.int8),
        "scale": np.float32(0.0625),
        "zero": np.int8(3),
        "steps": np.float32(0.5),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x_int8"]),
        helper.make_node("DequantizeLinear", ["x_int8", "scale", "zero"], ["x_real"]),
        helper.make_node("DequantizeLinear", ["weights", "scale"], ["w_real"]),
        helper.make_node("MatMul", ["x_real", "w_real"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", "steps", "zero"], ["y_int8"]),
        helper.make_node("DequantizeLinear", ["y_int8", "steps", "zero"], ["y"]),
    ]
    return write(folder, nodes, [1, 32], constants)


MODELS = {model.__name__: model for model in (softmax, nibbles, leaky, normalized, quantized)}


@pytest.mark.parametrize("name", MODELS)
def test_both_readers_agree(name: str, tmp_path: Path) -> None:
    witness = witness_of(MODELS[name](tmp_path))
    assert (witness.obstacle, witness.wrong, witness.frames) == ("", 0, 2), witness
    assert witness.values > 0
    assert model_reference(witness).state == PROVEN


def otherwise(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Operator], Operator]) -> None:
    """Give every version of an operator another meaning, in the reader that all of onnx-hw shares."""
    key, table = ("", name), registry._OPERATORS
    monkeypatch.setitem(table, key, [replace(one, function=change(one.function)) for one in table[key]])


def with_default(attribute: str, value: float) -> Callable[[Operator], Operator]:
    return lambda function: lambda *inputs, **attributes: function(*inputs, **{attribute: value, **attributes})


def swap_nibbles(data: np.ndarray, bits: int) -> np.ndarray:
    codes = UNPACK(data, bits)
    return codes.reshape(-1, 2)[:, ::-1].reshape(-1) if bits == 4 else codes


UNPACK = tensors.unpack


def last_axis(_function: Operator) -> Operator:
    return lambda x, **_: softmax_of(x, (x.ndim - 1,))


def rounds_down(function: Operator) -> Operator:
    return lambda x, scale, *rest, **attributes: function(x - scale / 2, scale, *rest, **attributes)


def is_unscaled(function: Operator) -> Operator:
    return lambda x, scale, *rest, **attributes: function(x, scale * np.float32(1.01), *rest, **attributes)


FAULTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "Softmax has the axis of opset 13": ("softmax", lambda patch: otherwise(patch, "Softmax", last_axis)),
    "the high nibble comes first": ("nibbles", lambda patch: patch.setattr(tensors, "unpack", swap_nibbles)),
    "alpha has another default": ("leaky", lambda p: otherwise(p, "LeakyRelu", with_default("alpha", 0.02))),
    "epsilon is a hundred times": (
        "normalized",
        lambda patch: otherwise(patch, "BatchNormalization", with_default("epsilon", 1e-3)),
    ),
    "a quantizer rounds down": ("quantized", lambda patch: otherwise(patch, "QuantizeLinear", rounds_down)),
    "a scale is 1 % off": ("quantized", lambda patch: otherwise(patch, "DequantizeLinear", is_unscaled)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_our_own_reader_is_named(fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name, inject = FAULTS[fault]
    path = MODELS[name](tmp_path)
    inject(monkeypatch)
    witness = witness_of(path)
    assert witness.wrong > 0 and "in onnxruntime, and" in witness.difference, witness
    link = model_reference(witness)
    assert (link.state, link.difference) == (FAILED, witness.difference)


def test_it_is_left_out_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = leaky(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    link = model_reference(witness_of(path))
    assert link.state == LEFT_OUT and "onnxruntime is not installed" in link.compared


def test_what_it_cannot_load_is_said(tmp_path: Path) -> None:
    node = helper.make_node("Quant", ["x", "scale", "zero", "bits"], ["y"], domain="qonnx.custom_op.general")
    constants = {"scale": np.float32(0.1), "zero": np.float32(0), "bits": np.float32(4)}
    path = write(tmp_path, [node], [1, 4], constants)
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("qonnx.custom_op.general", 1))
    onnx.save(model, path)
    witness = witness_of(path)
    assert "onnxruntime cannot run the model" in witness.obstacle and "qonnx.custom_op.general" in witness.obstacle


@pytest.mark.parametrize("ending", ["raise MemoryError", "import os; os._exit(3)", "import os; os.abort()"])
def test_its_end_is_not_ours(ending: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text(ending, encoding="utf-8")
    path = leaky(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert witness_of(path).obstacle.startswith("onnxruntime cannot run the model: ")


def test_samples_of_several_frames(tmp_path: Path) -> None:
    path = write(tmp_path, [helper.make_node("LeakyRelu", ["x"], ["y"])], [4, 8], {}, opset=16)
    witness = witness_of(path)
    assert (witness.obstacle, witness.wrong, witness.frames, witness.values) == ("", 0, 4, 32)


def test_weights_outside_of_the_file(tmp_path: Path) -> None:
    path = quantized(tmp_path)
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights", size_threshold=64)
    assert (tmp_path / "weights").exists()
    witness = witness_of(path)
    assert (witness.obstacle, witness.wrong) == ("", 0)


def test_digits() -> None:
    path = EXAMPLES / "digits" / "digits.onnx"
    images = np.load(EXAMPLES / "digits" / "digits_test.npz")["image"][:4].reshape(-1, 1, 1, 8, 8)
    model = flow.read(path)
    witness = compare_with_onnxruntime(path, model, [{"image": image} for image in images], 1)
    assert (witness.obstacle, witness.wrong, witness.frames) == ("", 0, 4)
    assert witness.tensors > 5 and witness.rounded <= witness.values // 1000


def test_only_a_process_of_its_own_imports_it() -> None:
    for module in (onnxruntime_witness, onnxruntime_process):
        assert not hasattr(module, "onnxruntime")


# ---- decisions at ties, and faults of decisions ----------------------------------------------------------------------


def averaged(folder: Path) -> Path:
    """Means of four integers, half of which are at a tie or a quarter beside it."""
    constants = {"scale": np.float32(0.1), "zero": np.int8(-5)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x_int8"]),
        helper.make_node("DequantizeLinear", ["x_int8", "scale", "zero"], ["x_real"]),
        helper.make_node("AveragePool", ["x_real"], ["mean"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("QuantizeLinear", ["mean", "scale", "zero"], ["y_int8"]),
        helper.make_node("DequantizeLinear", ["y_int8", "scale", "zero"], ["y"]),
    ]
    return write(folder, nodes, [1, 2, 16, 16], constants)


def picked(folder: Path) -> Path:
    """Positions of the greatest of products; of two equal columns, rounding decides which."""
    generator = np.random.Generator(np.random.PCG64(5))
    weights = generator.normal(size=(33, 8)).astype(np.float32)
    weights[:, 4:] = weights[:, :4]
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["product"]),
        helper.make_node("ArgMax", ["product"], ["place"], axis=1, keepdims=1),
        helper.make_node("Cast", ["place"], ["y"], to=TensorProto.FLOAT),
    ]
    return write(folder, nodes, [1, 33], {"weights": weights})


def sorted_out(folder: Path) -> Path:
    constants = {"three": np.array([3], dtype=np.int64)}
    nodes = [
        helper.make_node("TopK", ["x", "three"], ["largest", "place"]),
        helper.make_node("Cast", ["place"], ["y"], to=TensorProto.FLOAT),
    ]
    return write(folder, nodes, [1, 40], constants)


def decided(folder: Path) -> Path:
    nodes = [
        helper.make_node("Greater", ["x", "limit"], ["is_greater"]),
        helper.make_node("Cast", ["is_greater"], ["y"], to=TensorProto.FLOAT),
    ]
    return write(folder, nodes, [1, 40], {"limit": np.array(0.1, dtype=np.float32)})


DECISIONS = {model.__name__: model for model in (averaged, picked, sorted_out, decided)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", DECISIONS)
def test_a_tie_is_no_fault(name: str, seed: int, tmp_path: Path) -> None:
    witness = witness_of(DECISIONS[name](tmp_path), seed)
    assert (witness.obstacle, witness.wrong) == ("", 0), witness.difference


def second_best(function: Operator) -> Operator:
    """Pick the last place in one row of many."""
    return lambda x, **attributes: np.full_like(function(x, **attributes), x.shape[attributes.get("axis", 0)] - 1)


def one_place_on(function: Any) -> Any:
    def other(x: np.ndarray, k: np.ndarray, **attributes: Any) -> tuple[np.ndarray, np.ndarray]:
        values, places = function(x, k, **attributes)
        return values, np.roll(places, 1)

    return other


WRONG_DECISIONS: dict[str, tuple[str, str, Any]] = {
    "a mean is rounded down": ("averaged", "QuantizeLinear", rounds_down),
    "a mean divides by another number": ("averaged", "AveragePool", lambda f: lambda x, **a: f(x, **a) * 1.02),
    "the greatest is not picked": ("picked", "ArgMax", second_best),
    "positions are turned": ("sorted_out", "TopK", one_place_on),
    "a comparison is reversed": ("decided", "Greater", lambda function: lambda a, b: function(b, a)),
}


@pytest.mark.parametrize("fault", WRONG_DECISIONS)
def test_a_wrong_decision_is_a_fault(fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name, operator, change = WRONG_DECISIONS[fault]
    path = DECISIONS[name](tmp_path)
    otherwise(monkeypatch, operator, change)
    assert witness_of(path).wrong > 0


def test_a_difference_ends_the_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = nibbles(tmp_path)
    monkeypatch.setattr(tensors, "unpack", swap_nibbles)
    options = BuildOptions(model=path, out=tmp_path / "out", stop_after=Stage.QUANTIZE, random_calibration=True)
    with pytest.raises(UserError, match="onnxruntime") as raised:
        build(options)
    assert raised.value.exit_code == ExitCode.MISMATCH and raised.value.problems[0].code == "model-differs"
    assert "--no-witness" in raised.value.problems[0].hint
    links = read_report(tmp_path / "out").links
    assert links.model_reference.state == FAILED and links.model_reference.difference in str(raised.value)


def test_the_witness_can_be_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = nibbles(tmp_path)
    monkeypatch.setattr(tensors, "unpack", swap_nibbles)
    options = BuildOptions(model=path, out=tmp_path / "out", stop_after=Stage.QUANTIZE, random_calibration=True)
    report = build(options.but(witness=False)).report
    assert report.links.model_reference.state == LEFT_OUT
    said = "the model was not compared with onnxruntime: `--no-witness`"
    assert report.links.model_reference.compared == said == witness_in_short(report.links)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert said.replace("`", "") in re.sub(r"<[^>]*>|`", "", page)


@pytest.mark.parametrize("by_scales", [True, False])
def test_where_onnxruntime_does_not_follow_onnx_it_is_no_witness(by_scales: bool, tmp_path: Path) -> None:
    """Of ONNX's own cases, aligned corners with scales, and MaxUnpool with a shape, have another result there."""
    constants = {"scales": np.float32([1, 1, 0.6, 0.6])} if by_scales else {"sizes": np.int64([1, 1, 3, 3])}
    inputs = ["x", "", "scales"] if by_scales else ["x", "", "", "sizes"]
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    path = write(tmp_path, [helper.make_node("Resize", inputs, ["y"], **attributes)], [1, 1, 5, 5], constants)
    witness = witness_of(path)
    assert witness.wrong == 0
    assert ("otherwise than ONNX says" in witness.obstacle) == by_scales
