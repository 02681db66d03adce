"""Models whose scales each sample chooses, as onnxruntime's tools write them, and products of integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

import onnx
from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.commands.build import build
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.matmul import MatMul
from onnx_hw.runtime.options import BuildOptions
from onnx_hw.runtime.progress import Silent
from onnx_hw.runtime.stage import Stage
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime, write
from support.qdq_models import Sketch
from support.recurrent_models import RecurrentNode


def floats(tmp_path: Path, seed: int) -> tuple[Path, list[int]]:
    """A chain of layers, images first or a vector."""
    random, sketch = np.random.default_rng(seed), Sketch()
    value, shape, width = "x", [1, 12], 12

    def weights(*shape: int) -> str:
        return sketch.constant((random.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))

    if seed % 2:
        shape, width = [1, 3, 6, 6], 6
        value = sketch.node("Relu", sketch.node("Conv", value, weights(6, 3, 3, 3), weights(6), pads=[1, 1, 1, 1]))
        value = sketch.node("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
        value = sketch.node("Conv", value, weights(6, 1, 3, 3), group=6)
        value = sketch.node("Flatten", sketch.node("GlobalAveragePool", value))
    value = sketch.node("Add", sketch.node("MatMul", value, weights(width, 9)), weights(9))
    twice = [sketch.node("Gemm", value, weights(4, 9), weights(4), transB=1) for _ in range(2)]
    value = sketch.node("Concat", twice[0], sketch.node("Relu", twice[1]), axis=1)
    return write(sketch, tmp_path / "floats.onnx", {"x": shape}, value), shape


def optimized(path: Path) -> Path:
    """What onnxruntime makes of a model before it runs it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # others would spin on the cores of other tests
    options.log_severity_level = 3
    options.optimized_model_filepath = str(path.with_name("optimized.onnx"))
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return path.with_name("optimized.onnx")


def made(tmp_path: Path, seed: int) -> tuple[Path, dict[str, np.ndarray]]:
    plain, shape = floats(tmp_path, seed)
    path = tmp_path / "m.onnx"
    kind = QuantType.QUInt8 if seed & 2 else QuantType.QInt8
    # On processors without VNNI, onnxruntime saturates sums of two u8 × s8 products at 16 bits; 7-bit weights fit.
    reduced = bool(seed & 8) or kind is QuantType.QInt8
    quantize_dynamic(plain, path, per_channel=bool(seed & 4), reduce_range=reduced, weight_type=kind)
    samples = {"x": np.random.default_rng(seed).uniform(-1, 1, (24, *shape)).astype(np.float32)}
    return optimized(path) if seed & 16 else path, samples


@pytest.mark.parametrize("seed", [0, 1, 6, 15, 20, 23, 26, 29])
def test_scales_are_frozen_and_weights_kept(tmp_path: Path, seed: int) -> None:
    path, samples = made(tmp_path, seed)
    model = flow.read(path)
    network = flow.quantize(model, samples)
    found, wanted = golden.run(network, samples), by_onnxruntime(path, samples)
    for name, array in wanted.items():
        assert ((found[name] - array) ** 2).sum() < 1e-3 * (array**2).sum()
    stored = [np.unique(a.astype(np.int64) - 128 * (a.dtype == np.uint8)) for a in model.graph.constants.values()]
    for node in network.nodes:
        if isinstance(node.operator, MatMul) and seed & 2 == 0:
            assert any(np.isin(node.operator.weights, array).all() for array in stored)


def test_a_build_says_so_and_wants_samples(tmp_path: Path) -> None:
    path, samples = made(tmp_path, 4)
    options = BuildOptions(model=path, out=tmp_path / "out", stop_after=Stage.QUANTIZE)
    for asked in (lambda: build(options, stop_after="simulate"), lambda: flow.quantize(flow.read(path))):
        with pytest.raises(UserError, match="scales-of-samples") as caught:
            asked()
        assert "--calibration" in caught.value.problems[0].hint
    np.savez(tmp_path / "x.npz", **samples)
    progress = Silent()
    build(options, progress, calibration=tmp_path / "x.npz")
    assert any("2 scales" in warning and "each sample" in warning for warning in progress.warnings)


def integers(sketch: Sketch, form: str, x: str, wide: bool) -> str:
    """A product of integers in one of the forms that are about, of data (1, 8) or, ``wide``, (1, 2, 3, 4)."""
    random = np.random.default_rng(len(form))
    zero = sketch.constant(np.uint8(7))
    if wide:
        weights, scale = random.integers(-50, 50, (5, 2, 2, 2)).astype(np.int8), np.full((5, 1, 1), 0.01, np.float32)
        sums = sketch.node("ConvInteger", x, sketch.constant(weights), zero, pads=[0, 1, 0, 1])
    else:
        weights, scale = random.integers(-50, 50, (8, 5)).astype(np.int8), np.linspace(0.01, 0.02, 5, dtype=np.float32)
        of_weights = sketch.constant(random.integers(-3, 4, 5).astype(np.int8))
        sums = sketch.node("MatMulInteger", x, sketch.constant(weights), zero, of_weights)
    if form == "sums":
        return sums
    if form == "one scale":
        return sketch.node("DequantizeLinear", sums, sketch.constant(np.float32(0.01)))
    turned = sketch.node("Reshape", sums, sketch.constant(np.array([1, -1], np.int64)))
    if form == "moved":
        return sketch.node("Cast", turned, to=TensorProto.FLOAT)
    return sketch.node("Mul", sketch.constant(scale), sketch.node("Cast", sums, to=TensorProto.FLOAT))


@pytest.mark.parametrize("form", ["sums", "one scale", "moved", "scales"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_products_of_integers_of_fixed_scales_are_exact(tmp_path: Path, form: str, wide: bool, outside: bool) -> None:
    """Whether integers come in, or the model makes them of floats."""
    sketch, shape = Sketch(), [1, 2, 3, 4] if wide else [1, 8]
    x = "x" if outside else sketch.node(
        "QuantizeLinear", "x", sketch.constant(np.float32(1)), sketch.constant(np.uint8(7))
    )  # fmt: skip
    y = integers(sketch, form, x, wide)
    element = TensorProto.INT32 if form == "sums" else TensorProto.FLOAT
    given = TensorProto.UINT8 if outside else TensorProto.FLOAT
    path = tmp_path / "m.onnx"
    onnx.save(sketch.model(shape, given, y, 4 if wide and form != "moved" else 2, element), path)
    network: Network = flow.quantize(flow.read(path))
    samples = np.random.default_rng(3).integers(0, 256, (6, *shape))
    frames = {"x": samples.astype(np.uint8) if outside else (samples - 7).astype(np.float32)}
    for name, wanted in by_onnxruntime(path, frames).items():
        found = golden.run(network, frames)[name]
        assert found.dtype == wanted.dtype and np.allclose(found, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_an_lstm_with_weights_of_8_bits(tmp_path: Path, per_channel: bool, direction: str) -> None:
    """64 steps as quantize_dynamic writes them: against the same weights in floats, and the circuit against golden."""
    node = RecurrentNode("LSTM", 64, 6, 8, direction)
    plain, path = node.write(tmp_path), tmp_path / "dynamic.onnx"
    quantize_dynamic(plain, path, per_channel=per_channel, reduce_range=True)
    model = flow.read(path)
    assert [each.op_type for each in model.frame.model.graph.nodes].count("DynamicQuantizeLSTM") == 1
    random = np.random.default_rng(3)
    samples, frames = (
        {"x": random.normal(size=(count, node.steps, 1, node.features)).astype(np.float32)} for count in (8, 3)
    )
    network = flow.quantize(model, samples)
    found = golden.run(network, frames)
    for name, wanted in by_onnxruntime(path, frames).items():
        assert ((found[name] - wanted) ** 2).sum() < 1e-3 * (wanted**2).sum()
    with pytest.raises(UserError, match="scales-of-samples"):
        flow.quantize(model)


def test_the_circuit_of_an_lstm_with_weights_of_8_bits(tmp_path: Path) -> None:
    node, path = RecurrentNode("LSTM", 3, 2, 2), tmp_path / "dynamic.onnx"
    quantize_dynamic(node.write(tmp_path), path, reduce_range=True)
    samples = {"x": np.random.default_rng(3).normal(size=(8, 3, 1, 2)).astype(np.float32)}
    network = flow.quantize(flow.read(path), samples)
    assert len(network.loops) == 1
    assert_circuit_agrees(network)
