"""Normalizations between two products: as nodes and spelled out, against onnxruntime and in the circuit."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import onnx_hw
from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ops.divide import Divide
from onnx_hw.ops.normalize import Normalize
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime
from support.qdq_models import Sketch

Norm = Callable[[Sketch, str, int], str]
"""Function (sketch, name of data, channels) -> name of the normalized data."""


def scale_of(channels: int, *, turned: bool = False) -> np.ndarray:
    scale = np.random.default_rng(1).uniform(0.5, 1.5, channels).astype(np.float32)
    scale[::3] *= -1 if turned else 1
    return scale


def bias_of(channels: int) -> np.ndarray:
    return np.random.default_rng(2).normal(0, 0.3, channels).astype(np.float32)


def layer_norm(s: Sketch, x: str, channels: int) -> str:
    return s.node("LayerNormalization", x, s.constant(scale_of(channels)), s.constant(bias_of(channels)))


def layer_norm_with_signs(s: Sketch, x: str, channels: int) -> str:
    return s.node("LayerNormalization", x, s.constant(scale_of(channels, turned=True)), epsilon=1e-3)


def rms_norm(s: Sketch, x: str, channels: int) -> str:
    return s.node("RMSNormalization", x, s.constant(scale_of(channels)), epsilon=1e-4)


def lp_norm(s: Sketch, x: str, channels: int) -> str:
    return s.node("LpNormalization", x, axis=-1)


def as_torch(s: Sketch, x: str, channels: int) -> str:
    mean = s.node("ReduceMean", x, axes=[-1])
    distance = s.node("Sub", x, mean)
    square = s.node("Pow", distance, s.constant(np.float32(2)))
    variance = s.node("Add", s.node("ReduceMean", square, axes=[-1]), s.constant(np.float32(1e-5)))
    quotient = s.node("Div", distance, s.node("Sqrt", variance))
    scaled = s.node("Mul", quotient, s.constant(scale_of(channels)))
    return s.node("Add", scaled, s.constant(bias_of(channels)))


def as_keras(s: Sketch, x: str, channels: int) -> str:
    mean = s.node("ReduceMean", x, axes=[-1])
    distance = s.node("Sub", x, mean)
    variance = s.node("ReduceMean", s.node("Mul", distance, distance), axes=[-1])
    root = s.node("Sqrt", s.node("Add", variance, s.constant(np.float32(1e-3))))
    factor = s.node("Mul", s.node("Reciprocal", root), s.constant(scale_of(channels)))
    rest = s.node("Sub", s.constant(bias_of(channels)), s.node("Mul", mean, factor))
    return s.node("Add", s.node("Mul", x, factor), rest)


def as_llama(s: Sketch, x: str, channels: int) -> str:
    square = s.node("ReduceMean", s.node("Mul", x, x), axes=[-1])
    root = s.node("Sqrt", s.node("Add", square, s.constant(np.float32(1e-5))))
    inverse = s.node("Div", s.constant(np.float32(1)), root)
    return s.node("Mul", s.node("Mul", x, inverse), s.constant(scale_of(channels)))


def as_normalize(s: Sketch, x: str, channels: int) -> str:
    norm = s.node("Clip", s.node("ReduceL2", x, axes=[-1]), s.constant(np.float32(1e-12)))
    return s.node("Div", x, norm)


NODES = {"layer": layer_norm, "signs": layer_norm_with_signs, "rms": rms_norm, "lp": lp_norm}
SPELLED = {"torch": as_torch, "keras": as_keras, "llama": as_llama, "normalize": as_normalize}
OPSETS = {"rms": 23}


def quantized(norm: Norm, opset: int, shape: tuple[int, ...] = (1, 4, 6)) -> tuple[Sketch, str]:
    """x → integers → MatMul → integers → normalization → integers → MatMul → integers."""
    random = np.random.default_rng(3)
    s = Sketch(opset)
    first, second = (random.integers(-127, 128, (shape[-1], shape[-1]), dtype=np.int8) for _ in range(2))
    x = s.through_integers("x", 0.02, 3)
    data = s.through_integers(s.node("MatMul", x, s.dequantized(first, 0.01)), 0.05, 5)
    result = s.through_integers(norm(s, data, shape[-1]), 0.03, -3)
    return s, s.through_integers(s.node("MatMul", result, s.dequantized(second, 0.01)), 0.05, 0)


@pytest.mark.parametrize("name", NODES)
def test_nodes_agree_with_onnxruntime_and_in_the_circuit(name: str, tmp_path: Path) -> None:
    s, output = quantized(NODES[name], OPSETS.get(name, 17))
    network = assert_agrees(s.write(tmp_path / "model.onnx", (1, 4, 6), output, 3), 0.05, rarely=0.01)
    assert sum(isinstance(node.operator, Normalize) for node in network.nodes) == 1
    assert network.approximate, "the roundings that its definition names"
    assert_circuit_agrees(network)


@pytest.mark.parametrize("name", SPELLED)
def test_what_is_spelled_out_is_one_core(name: str, tmp_path: Path) -> None:
    s, output = quantized(SPELLED[name], 13)
    network = assert_agrees(s.write(tmp_path / "model.onnx", (1, 4, 6), output, 3), 0.05, rarely=0.01)
    kinds = [type(node.operator).__name__ for node in network.nodes]
    assert kinds.count("Normalize") == 1 and "Reduce" not in kinds and "Multiply" not in kinds


def instance_norm(s: Sketch, x: str, channels: int) -> str:
    return s.node("InstanceNormalization", x, s.constant(scale_of(channels)), s.constant(bias_of(channels)))


def group_norm(s: Sketch, x: str, channels: int) -> str:
    parameters = (s.constant(scale_of(channels)), s.constant(bias_of(channels)))
    return s.node("GroupNormalization", x, *parameters, num_groups=2)


def group_norm_of_torch(s: Sketch, x: str, channels: int) -> str:
    grouped = s.node("Reshape", x, s.constant(np.array([0, 2, -1])))
    ones, zeros = (s.constant(np.full(2, k, dtype=np.float32)) for k in (1, 0))
    result = s.node("InstanceNormalization", grouped, ones, zeros)
    result = s.node("Reshape", result, s.constant(np.array([1, channels, 3, 4])))
    scaled = s.node("Mul", result, s.constant(scale_of(channels).reshape(-1, 1, 1)))
    return s.node("Add", scaled, s.constant(bias_of(channels).reshape(-1, 1, 1)))


def mean_variance(s: Sketch, x: str, channels: int) -> str:
    return s.node("MeanVarianceNormalization", x)


def layer_norm_of_channels(s: Sketch, x: str, channels: int) -> str:
    """As ConvNeXt's, over the first axis of an image."""
    mean = s.node("ReduceMean", x, axes=[1])
    distance = s.node("Sub", x, mean)
    variance = s.node("ReduceMean", s.node("Mul", distance, distance), axes=[1])
    root = s.node("Sqrt", s.node("Add", variance, s.constant(np.float32(1e-6))))
    scaled = s.node("Mul", s.node("Div", distance, root), s.constant(scale_of(channels).reshape(-1, 1, 1)))
    return s.node("Add", scaled, s.constant(bias_of(channels).reshape(-1, 1, 1)))


IMAGES = {
    "instance": (instance_norm, 17),
    "group": (group_norm, 21),
    "group_of_torch": (group_norm_of_torch, 17),
    "mean_variance": (mean_variance, 17),
    "channels": (layer_norm_of_channels, 17),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_agree_with_onnxruntime(name: str, tmp_path: Path) -> None:
    norm, opset = IMAGES[name]
    random = np.random.default_rng(3)
    s = Sketch(opset)
    first, second = (random.integers(-127, 128, (4, 4, 1, 1), dtype=np.int8) for _ in range(2))
    x = s.through_integers("x", 0.02, 3)
    data = s.through_integers(s.node("Conv", x, s.dequantized(first, 0.01)), 0.05, 5)
    result = s.through_integers(norm(s, data, 4), 0.03, -3)
    output = s.through_integers(s.node("Conv", result, s.dequantized(second, 0.01)), 0.05, 0)
    network = assert_agrees(s.write(tmp_path / "model.onnx", (1, 4, 3, 4), output), 0.05, rarely=0.01)
    assert sum(isinstance(node.operator, Normalize) for node in network.nodes) == 1
    if name == "instance":
        assert_circuit_agrees(network)


@pytest.mark.parametrize("seed", range(3))
def test_tokens_of_different_sizes_keep_38_db(seed: int) -> None:
    """LayerNormalization behind a product, onto 8 bits, against the floats; the tokens' sizes differ by e^±1.2."""
    random = np.random.default_rng(seed)
    s = Sketch()
    first, second = random.normal(0, 0.4, (10, 32)).astype(np.float32), np.eye(32, dtype=np.float32)
    data = s.node("MatMul", "x", s.constant(first))
    norm = s.node("LayerNormalization", data, s.constant(np.ones(32, np.float32)), s.constant(np.zeros(32, np.float32)))
    output = s.node("MatMul", norm, s.constant(second))
    model = s.model((1, 6, 10), TensorProto.FLOAT, output, 3, TensorProto.FLOAT)
    sizes = np.exp(random.uniform(-1.2, 1.2, (90, 1, 6, 1)))
    frames = (random.normal(size=(90, 1, 6, 10)) * sizes).astype(np.float32)
    network = onnx_hw.quantize(model, {"x": frames[:60]})
    assert any(str(node.operator) == "Requantize to -128..127" for node in network.network.nodes)
    found = np.array(dict(network.trace(frames[60:]))[norm], dtype=np.float64).reshape(30, 6, 32)
    exact = frames[60:].reshape(30, 6, 10).astype(np.float64) @ first
    exact -= exact.mean(axis=-1, keepdims=True)
    exact /= np.sqrt((exact**2).mean(axis=-1, keepdims=True) + 1e-5)
    assert 10 * np.log10((exact**2).sum() / ((found - exact) ** 2).sum()) >= 38


def test_stays_on_the_host_behind_the_last_product(tmp_path: Path) -> None:
    s = Sketch()
    matrix = s.dequantized(np.arange(-8, 8, dtype=np.int8).reshape(4, 4), 0.1)
    output = layer_norm(s, s.node("MatMul", s.through_integers("x", 0.02, 0), matrix), 4)
    path = s.write(tmp_path / "model.onnx", (1, 4), output, 2)
    network = flow.quantize(flow.read(path))
    assert not any(isinstance(node.operator, Normalize) for node in network.nodes) and network.tail is not None
    assert by_onnxruntime(path, {"x": np.zeros((1, 1, 4), np.float32)})


def sum_of_magnitudes(s: Sketch, x: str, axis: int) -> str:
    return s.node("LpNormalization", x, p=1, axis=axis)


def as_torch_with_magnitudes(s: Sketch, x: str, axis: int) -> str:
    norm = s.node("Clip", s.node("ReduceL1", x, axes=[axis]), s.constant(np.float32(1e-12)))
    return s.node("Div", x, norm)


def as_keras_with_magnitudes(s: Sketch, x: str, axis: int) -> str:
    norm = s.node("ReduceSum", s.node("Abs", x), s.constant(np.array([axis])))
    return s.node("Div", x, s.node("Max", norm, s.constant(np.float32(1e-12))))


@pytest.mark.parametrize("norm", [sum_of_magnitudes, as_torch_with_magnitudes, as_keras_with_magnitudes])
@pytest.mark.parametrize("axis", [1, 2])
def test_shares_of_a_sum_of_magnitudes_are_exact(norm: Norm, axis: int, tmp_path: Path) -> None:
    """Each integer is the rounded fraction x / Σ|x|, those of zeros are 0; onnxruntime and the circuit agree."""
    s, output = quantized(lambda s, x, _: norm(s, x, axis), 13)
    network = assert_agrees(s.write(tmp_path / "model.onnx", (1, 4, 6), output, 3), 0.05, rarely=0.01)
    (quotient,) = (node for node in network.nodes if isinstance(node.operator, Divide))
    frames = np.random.default_rng(5).integers(-128, 128, (12, 1, 4, 6)) * 0.02
    frames[:3] = 0
    tensors = golden.trace(network, golden.integers_of(network, {"x": frames.astype(np.float32)}))
    data, shares = (tensors[name] for name in (quotient.inputs[0], quotient.outputs[0]))
    sums = np.broadcast_to(np.abs(data).sum(axis=-1, keepdims=True), data.shape)
    assert (sums == 0).any() and (sums > 0).any()
    step = Fraction(float(np.float32(0.03)))
    for share, number, total in zip(*(array.reshape(-1).tolist() for array in (shares, data, sums)), strict=True):
        assert share == min(max(round(Fraction(number, max(total, 1)) / step) - 3, -128), 127)
    if norm is sum_of_magnitudes:
        assert_circuit_agrees(network)
