"""Softmax between two products: against onnxruntime, in the circuit, and where it stays on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnx
import onnx_hw
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.divide import Divide
from onnx_hw.ops.softmax import Softmax
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime
from support.qdq_models import Sketch


def sketch(
    shape: tuple[int, ...], scales: tuple[float, float], zero: int = -128, opset: int = 17, **attributes: Any
) -> tuple[Sketch, str]:
    """x → integers → MatMul → integers → Softmax → integers → MatMul → integers."""
    random = np.random.default_rng(3)
    one = Sketch(opset)
    first, second = (random.integers(-127, 128, (shape[-1], shape[-1]), dtype=np.int8) for _ in range(2))
    x = one.through_integers("x", 0.02, 3)
    sums = one.node("MatMul", x, one.dequantized(first, 0.01))
    logits = one.through_integers(sums, scales[0], 5)
    shares = one.through_integers(one.node("Softmax", logits, **attributes), scales[1], zero)
    output = one.through_integers(one.node("MatMul", shares, one.dequantized(second, 0.01)), 0.005, 0)
    for node in one.nodes if opset < 13 else ():
        if node.op_type == "DequantizeLinear":
            del node.attribute[:]  # it had no axis
    return one, output


@pytest.mark.parametrize(
    ("shape", "scales", "opset", "attributes"),
    [
        ((1, 5, 6), (0.05, 1 / 256), 17, {}),
        ((1, 5, 6), (0.1, 1 / 255), 17, {"axis": 1}),
        ((1, 2, 3, 4), (0.03, 0.004), 13, {"axis": -2}),
        ((1, 3, 4), (0.05, 1 / 256), 11, {}),  # over both axes together
        ((1, 8), (0.5, 1 / 128), 17, {}),  # a saturated result: 1 would be 128
    ],
)
def test_agrees_with_onnxruntime_and_in_the_circuit(
    tmp_path: Path, shape: tuple[int, ...], scales: tuple[float, float], opset: int, attributes: dict[str, int]
) -> None:
    one, output = sketch(shape, scales, -128 if scales[1] < 1 / 200 else 0, opset, **attributes)
    network = assert_agrees(one.write(tmp_path / "model.onnx", shape, output, len(shape)), 0.005, rarely=0.01)
    assert sum(isinstance(node.operator, Softmax) for node in network.nodes) == 1
    assert network.approximate, "the table of exponentials is known to be approximate"
    assert_circuit_agrees(network)


def test_stays_on_the_host_behind_the_last_product(tmp_path: Path) -> None:
    one = Sketch()
    matrix = one.dequantized(np.arange(-8, 8, dtype=np.int8).reshape(4, 4), 0.1)
    sums = one.node("MatMul", one.through_integers("x", 0.02, 0), matrix)
    output = one.through_integers(one.node("Softmax", one.through_integers(sums, 0.1, 0)), 1 / 256, -128)
    network = flow.quantize(flow.read(one.write(tmp_path / "model.onnx", (1, 4), output, 2)))
    assert not any(isinstance(node.operator, Softmax) for node in network.nodes) and network.tail is not None


def test_data_of_16_bits_is_rounded_to_a_table(tmp_path: Path) -> None:
    """Of 65,536 integers 12 bits count: less than a hundredth of any share is lost, and the circuit does the same."""
    one = Sketch(21)
    random = np.random.default_rng(3)
    first, second = (random.integers(-127, 128, (6, 6), dtype=np.int8) for _ in range(2))
    sums = one.node("MatMul", one.through_integers("x", 0.02, 3), one.dequantized(first, 0.01))
    wide = one.through_integers(sums, 0.0003, 100, np.int16)
    shares = one.through_integers(one.node("Softmax", wide), 1 / 256, -128)
    output = one.through_integers(one.node("MatMul", shares, one.dequantized(second, 0.01)), 0.01, 0)
    path = one.write(tmp_path / "model.onnx", (1, 4, 6), output, 3)
    network = flow.quantize(flow.read(path))
    frames = {"x": random.normal(0, 1.2, (40, 1, 4, 6)).astype(np.float32)}
    (wanted,), (found,) = by_onnxruntime(path, frames).values(), golden.run(network, frames).values()
    assert 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()) > 38
    assert max(network.approximate.values()) < 3
    assert_circuit_agrees(network)


def test_too_many_sums_are_refused(tmp_path: Path) -> None:
    one = Sketch()
    matrix = one.dequantized(np.arange(-80, 80, 10).astype(np.int8).reshape(4, 4), 0.1)
    sums = one.node("MatMul", one.through_integers("x", 0.02, 0), matrix)
    shares = one.through_integers(one.node("Softmax", sums), 1 / 256, -128)
    output = one.through_integers(one.node("MatMul", shares, matrix), 0.01, 0)
    path = one.write(tmp_path / "model.onnx", (1, 4), output, 2)
    with pytest.raises(UserError, match="the data of Softmax must be quantized to at most 12 bits"):
        flow.quantize(flow.read(path))


def test_softmax_of_integers_in_onnxruntimes_form(tmp_path: Path) -> None:
    """QLinearSoftmax between QLinearMatMuls is a Softmax between DequantizeLinear and QuantizeLinear."""
    one = Sketch()
    random = np.random.default_rng(3)
    matrices = [one.constant(random.integers(-127, 128, (6, 6), dtype=np.int8)) for _ in range(2)]
    grids = [(0.02, 3), (0.05, 5), (1 / 256, -128), (0.005, 0), (0.01, 0)]
    x, logits, shares, result, weights = (
        (one.constant(np.float32(scale)), one.constant(np.int8(zero))) for scale, zero in grids
    )
    data = one.node("QuantizeLinear", "x", *x)
    data = one.node("QLinearMatMul", data, *x, matrices[0], *weights, *logits)
    softmax = {"domain": "com.microsoft", "axis": -1, "opset": 17}
    data = one.node("QLinearSoftmax", data, *logits, *shares, **softmax)
    output = one.node(
        "DequantizeLinear", one.node("QLinearMatMul", data, *shares, matrices[1], *weights, *result), *result
    )
    model = one.model((1, 5, 6), TensorProto.FLOAT, output, 3, TensorProto.FLOAT)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, tmp_path / "model.onnx")
    network = assert_agrees(tmp_path / "model.onnx", 0.005, rarely=0.05)
    assert sum(isinstance(node.operator, Softmax) for node in network.nodes) == 1


def test_a_float_model_keeps_its_accuracy() -> None:
    random = np.random.default_rng(5)
    one = Sketch()
    first, second = (one.constant(random.normal(0, 0.6, size).astype(np.float32)) for size in ((10, 12), (12, 5)))
    logits = one.node("Add", one.node("MatMul", "x", first), one.constant(random.normal(size=12).astype(np.float32)))
    output = one.node("MatMul", one.node("Softmax", logits), second)
    model = one.model((1, 6, 10), TensorProto.FLOAT, output, 3, TensorProto.FLOAT)
    frames = random.normal(size=(60, 1, 6, 10)).astype(np.float32)
    quantized = onnx_hw.quantize(model, {"x": frames[:40]})
    assert any(isinstance(node.operator, Softmax) for node in quantized.network.nodes)
    matrices = [np.frombuffer(c.raw_data, np.float32).reshape(c.dims).astype(np.float64) for c in one.constants]
    powers = np.exp(frames[40:] @ matrices[0] + matrices[2])
    wanted = powers / powers.sum(axis=-1, keepdims=True) @ matrices[1]
    error = dict(quantized(frames[40:]))[output].reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) >= 30


@pytest.mark.parametrize("from_greatest", [True, False])
def test_a_softmax_that_is_spelled_out_is_one_core(tmp_path: Path, from_greatest: bool) -> None:
    """TensorFlow's graphs divide exponentials by their sum."""
    one = Sketch(13)
    random = np.random.default_rng(3)
    first, second = (random.integers(-127, 128, (6, 6), dtype=np.int8) for _ in range(2))
    sums = one.node("MatMul", one.through_integers("x", 0.02, 3), one.dequantized(first, 0.01))
    data = one.through_integers(sums, 0.05, 5)
    data = one.node("Sub", data, one.node("ReduceMax", data, axes=[-1])) if from_greatest else data
    exponentials = one.node("Exp", data)
    shares = one.node("Div", exponentials, one.node("ReduceSum", exponentials, one.constant(np.array([-1]))))
    shares = one.through_integers(shares, 1 / 256, -128)
    output = one.through_integers(one.node("MatMul", shares, one.dequantized(second, 0.01)), 0.005, 0)
    network = assert_agrees(one.write(tmp_path / "model.onnx", (1, 5, 6), output, 3), 0.005, rarely=0.01)
    assert [type(node.operator).__name__ for node in network.nodes].count("Softmax") == 1
    assert not any(isinstance(node.operator, Divide) for node in network.nodes)
