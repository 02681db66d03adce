"""Float models of the kinds that people have: what is quantized, what is folded, how close the integers stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.ir.network import Network
from onnx_hw.onnx.canonicalize.fold_scales_into_weights import fold_scales_into_weights
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.evaluate.fold_constants import fold
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.ops.add import Add
from onnx_hw.ops.concat import Concat
from onnx_hw.ops.lookup import Lookup
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.multiply import Multiply
from onnx_hw.ops.rearrange import Rearrange
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

SHAPE = [1, 3, 2, 4]


class Floats(Sketch):
    """A float model under construction, with seeded weights."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.generator = np.random.default_rng(seed)

    def array(self, *shape: int, about: float = 0.0) -> str:
        return self.constant(self.generator.normal(about, 1, shape).astype(np.float32))

    def conv(self, x: str, outputs: int, inputs: int, size: int = 3, *, bias: bool = True, **attributes: object) -> str:
        weights = self.generator.normal(0, (inputs * size * size) ** -0.5, (outputs, inputs, size, size))
        given = [self.array(outputs)] if bias else []
        pads = {"pads": [size // 2] * 4}
        return self.node("Conv", x, self.constant(weights.astype(np.float32)), *given, **{**pads, **attributes})

    def batch_normalization(self, x: str, channels: int) -> str:
        variance = self.constant(self.generator.uniform(0.5, 2, channels).astype(np.float32))
        return self.node("BatchNormalization", x, *(self.array(channels) for _ in range(3)), variance)


def quantized(sketch: Sketch, tmp_path: Path, *outputs: str, closeness: float = 28.0, **shapes: list[int]) -> Network:
    """The network of a float model, whose outputs are as near to the floats as eight bits allow (dB)."""
    path = write(sketch, tmp_path / "m.onnx", shapes or {"x": SHAPE}, *outputs)
    model = flow.read(path)
    frames = random_frames(model, 4)
    network = flow.quantize(model, frames)
    found = golden.run(network, frames)
    for name, wanted in by_onnxruntime(path, frames).items():
        assert found[name].shape == wanted.shape
        noise = found[name] - wanted
        assert 10 * np.log10((wanted.std() ** 2) / np.mean(noise**2)) > closeness, name
    return network


def count(network: Network, operator: type) -> int:
    return sum(isinstance(node.operator, operator) for node in network.nodes)


def test_batch_normalization_behind_products_is_in_the_weights(tmp_path: Path) -> None:
    s = Floats()
    y = s.node("Relu", s.batch_normalization(s.conv("x", 6, 3, bias=False), 6))
    y = s.node("Relu", s.batch_normalization(s.conv(y, 5, 6), 5))
    y = s.node("Flatten", s.node("GlobalAveragePool", y))
    y = s.node("Add", s.node("MatMul", y, s.array(5, 4)), s.array(4))
    y = s.node("Relu", s.node("BatchNormalization", y, *(s.array(4) for _ in range(3)), s.constant(np.ones(4, "f"))))
    y = s.node("Gemm", y, s.array(4, 3), s.array(3))
    path = write(s, tmp_path / "m.onnx", {"x": SHAPE}, y)
    model = fold(infer(flow.read(path)))
    prepared = fold_scales_into_weights(model)
    operators = [node.op_type for node in prepared.graph.nodes]
    assert "Mul" not in operators and "BatchNormalization" not in operators
    for frame in random_frames(model)["x"]:
        (found,), (wanted,) = (reference.run(m, {"x": frame}).values() for m in (prepared, model))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert_circuit_agrees(quantized(s, tmp_path, y))


@pytest.mark.parametrize("operator", ["Mul", "Div"])
@pytest.mark.parametrize("constant_first", [True, False])
def test_factors_of_either_sign_are_in_the_weights(tmp_path: Path, operator: str, constant_first: bool) -> None:
    s = Floats()
    factor = s.constant(np.array([2, -1, 0.5, -3], dtype=np.float32).reshape(4, 1, 1))
    sums = s.node("Sub", s.node("Add", s.array(4, 1, 1), s.conv("x", 4, 3)), s.array(1, 4, 1, 1))
    operands = (factor, sums) if constant_first and operator == "Mul" else (sums, factor)
    y = s.node("Relu", s.node(operator, *operands))
    y = s.conv(y, 3, 4)
    path = write(s, tmp_path / "m.onnx", {"x": SHAPE}, y)
    model = fold(infer(flow.read(path)))
    prepared = fold_scales_into_weights(model)
    assert operator not in [node.op_type for node in prepared.graph.nodes]
    for frame in random_frames(model)["x"]:
        (found,), (wanted,) = (reference.run(m, {"x": frame}).values() for m in (prepared, model))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    quantized(s, tmp_path, y)


def test_a_factor_stays_where_others_read_the_product(tmp_path: Path) -> None:
    s = Floats()
    y = s.conv("x", 4, 3)
    scaled = s.node("Mul", y, s.constant(np.float32(-2)))
    quantized(s, tmp_path, s.conv(s.node("Add", y, scaled), 2, 4))


def silu(s: Floats, x: str) -> str:
    return s.node("Mul", x, s.node("Sigmoid", x))


@pytest.mark.parametrize(
    ("activation", "tables"),
    [
        (silu, 1),
        (lambda s, x: s.node("HardSwish", x), 1),
        (lambda s, x: s.node("LeakyRelu", x, alpha=0.1), 0),
        (lambda s, x: s.node("PRelu", x, s.constant(np.full((5, 1, 1), 0.2, "f"))), 0),
        (lambda s, x: s.node("Tanh", s.node("Mul", x, s.constant(np.float32(-0.5)))), 0),
    ],
)
def test_an_activation_is_one_table(tmp_path: Path, activation: Callable[[Floats, str], str], tables: int) -> None:
    s = Floats()
    network = quantized(s, tmp_path, s.conv(activation(s, s.conv("x", 5, 3)), 2, 5))
    assert count(network, Lookup) == tables and count(network, Multiply) == 0
    assert_circuit_agrees(network)


def test_squeeze_and_excitation(tmp_path: Path) -> None:
    """The whole image waits until its means have gone through two layers."""
    s = Floats()
    y = s.node("Relu", s.conv("x", 4, 3))
    gate = s.node("Relu", s.conv(s.node("GlobalAveragePool", y), 2, 4, 1))
    gate = s.node("HardSigmoid", s.conv(gate, 4, 2, 1), alpha=0.2)
    network = quantized(s, tmp_path, s.conv(s.node("Mul", y, gate), 3, 4))
    assert count(network, Multiply) == 1 and count(network, Rearrange) == 1
    assert_circuit_agrees(network)


def test_branches_that_are_split_and_joined(tmp_path: Path) -> None:
    """A U: strided down, nearest up, joined with what was there, split, shuffled."""
    s = Floats()
    y = s.node("Relu", s.conv("x", 4, 3))
    down = s.node("Relu", s.conv(y, 4, 4, strides=[2, 2]))
    up = s.node("Resize", down, "", s.constant(np.array([1, 1, 2, 2], "f")), mode="nearest")
    joined = s.conv(s.node("Concat", y, up, axis=1), 4, 8)
    space = s.node("DepthToSpace", s.node("Relu", joined), blocksize=2)
    network = quantized(s, tmp_path, s.conv(space, 2, 1, 3))
    assert count(network, Concat) == 1 and count(network, Rearrange) == 2
    assert_circuit_agrees(network)


def test_dense_block(tmp_path: Path) -> None:
    """A Concat of Concats; accumulators go straight to the scale of the whole."""
    s = Floats()
    a = s.node("Relu", s.conv("x", 2, 3))
    b = s.node("Concat", a, s.node("Relu", s.conv(a, 2, 2)), axis=1)
    c = s.node("Concat", b, s.node("Relu", s.conv(b, 3, 4)), "x", axis=1)
    network = quantized(s, tmp_path, s.conv(c, 2, 10))
    assert count(network, Concat) == 2
    assert_circuit_agrees(network)


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    s = Floats()
    a, b = s.node("Relu", s.conv("x", 4, 3)), s.node("Relu", s.conv("y", 4, 2))
    total = s.node("Add", a, b)
    one = s.conv(total, 2, 4)
    two = s.node("Flatten", s.node("GlobalMaxPool", a))
    three = s.node("Softmax", s.node("Gemm", two, s.array(4, 3), s.array(3)))
    network = quantized(s, tmp_path, one, two, three, x=SHAPE, y=[1, 2, 2, 4])
    assert len(network.inputs) == 2 and len(network.outputs) == 3 and count(network, Add) == 1
    assert_circuit_agrees(network)


def test_channels_last_at_the_outside(tmp_path: Path) -> None:
    s = Floats()
    y = s.conv(s.node("Transpose", "x", perm=[0, 3, 1, 2]), 4, 3)
    y = s.node("Transpose", s.node("Relu", y), perm=[0, 2, 3, 1])
    network = quantized(s, tmp_path, y, x=[1, 4, 6, 3])
    assert count(network, Rearrange) == 0
    assert_circuit_agrees(network)


def test_a_transposition_in_the_middle(tmp_path: Path) -> None:
    """Height and width are exchanged, which no layout can hide."""
    s = Floats()
    y = s.node("Transpose", s.node("Relu", s.conv("x", 4, 3)), perm=[0, 1, 3, 2])
    network = quantized(s, tmp_path, s.conv(y, 2, 4))
    assert count(network, Rearrange) == 1
    assert_circuit_agrees(network)


def test_a_padded_mobile_block(tmp_path: Path) -> None:
    """As Keras exports them: Pad before a strided depthwise convolution, Relu6, a linear bottleneck, a residual sum."""
    s = Floats()
    six = s.constant(np.float32(0)), s.constant(np.float32(6))
    y = s.node("Clip", s.batch_normalization(s.conv("x", 6, 3, 1), 6), *six)
    padded = s.node("Pad", y, s.constant(np.array([0, 0, 0, 0, 0, 0, 1, 1])))
    weights = s.constant(s.generator.normal(0, 0.4, (6, 1, 3, 3)).astype(np.float32))
    y = s.node("Conv", padded, weights, group=6, strides=[2, 2])
    y = s.node("Clip", s.batch_normalization(y, 6), *six)
    y = s.batch_normalization(s.conv(y, 4, 6, 1, bias=False), 4)
    z = s.node("Clip", s.conv(y, 4, 4), *six)
    network = quantized(s, tmp_path, s.conv(s.node("Add", y, z), 2, 4), closeness=24)
    assert count(network, Rearrange) == 0
    assert_circuit_agrees(network)


@pytest.mark.parametrize("element", [TensorProto.UINT8, TensorProto.INT32])
def test_integers_enter_as_they_are_or_as_the_host_prepares_them(tmp_path: Path, element: int) -> None:
    """Camera images: bytes are streamed in; wider integers are cast and quantized on the host."""
    s = Floats()
    y = s.node("Div", s.node("Cast", "x", to=1), s.constant(np.float32(255)))
    y = s.conv(s.node("Transpose", y, perm=[0, 3, 1, 2]), 4, 3)
    path = write(s, tmp_path / "m.onnx", {"x": [1, 4, 6, 3]}, y, element=element)
    dtype = np.uint8 if element == TensorProto.UINT8 else np.int32
    frames = {"x": np.random.default_rng(0).integers(0, 256, (3, 1, 4, 6, 3)).astype(dtype)}
    network = flow.quantize(flow.read(path), frames)
    assert (network.head is None) == (dtype == np.uint8)
    (found,), (wanted,) = (values.values() for values in (golden.run(network, frames), by_onnxruntime(path, frames)))
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
    assert_circuit_agrees(network)


def test_final_functions_stay_on_the_host_in_floats(tmp_path: Path) -> None:
    s = Floats()
    y = s.node("Sigmoid", s.conv("x", 2, 3))
    network = quantized(s, tmp_path, y)
    assert [node.op_type for node in network.tail.graph.nodes] == [
        "Cast",
        "Mul",
        "Add",
        "Cast",
        "Sigmoid",
    ]  # of accumulators


def test_weights_that_are_integers_already_keep_them(tmp_path: Path) -> None:
    """As tools that compress files leave a model: the data is float and wants calibration."""
    s = Floats()
    stored = s.generator.integers(-90, 91, (4, 3, 3, 3)).astype(np.int8)
    weights = s.dequantized(stored, np.array([0.01, 0.02, 0.005, 0.015]))
    y = s.node("Relu", s.node("Conv", "x", weights, s.array(4), pads=[1] * 4))
    network = quantized(s, tmp_path, s.conv(y, 2, 4))
    first = next(node.operator for node in network.nodes if isinstance(node.operator, MatMul))
    assert np.array_equal(first.weights, np.moveaxis(stored, 1, -1).reshape(4, -1))
