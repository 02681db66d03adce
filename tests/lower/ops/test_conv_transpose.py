"""ConvTranspose against onnxruntime, and in the circuit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.rearrange import Rearrange
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

CASES = {
    "doubled": ([1, 3, 4, 3], (2, 2), {"strides": [2, 2]}),
    "overlapping": ([1, 3, 4, 3], (3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    "as wide as Keras has it": ([1, 3, 4, 3], (3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "four by four": ([1, 3, 3, 4], (4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "no stride": ([1, 2, 4, 4], (3, 2), {"pads": [2, 0, 1, 1]}),
    "wide strides": ([1, 2, 3, 2], (2, 3), {"strides": [3, 2]}),
    "cut": ([1, 2, 4, 4], (2, 2), {"strides": [2, 2], "pads": [3, 1, 2, 0]}),
    "a shape": ([1, 2, 3, 3], (3, 3), {"strides": [2, 2], "output_shape": [7, 8]}),
    "signal": ([1, 3, 5], (4,), {"strides": [2], "pads": [1, 1]}),
    "groups": ([1, 4, 3, 3], (2, 2), {"strides": [2, 2], "group": 2}),
    "depthwise": ([1, 3, 3, 3], (3, 3), {"strides": [2, 2], "group": 3}),
}


@pytest.mark.parametrize("per_output", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_any_geometry(tmp_path: Path, name: str, per_output: bool) -> None:
    shape, size, attributes = CASES[name]
    group = int(attributes.get("group", 1))  # type: ignore[call-overload]
    outputs = 2 if group == 1 else 1
    generator = np.random.default_rng(0)
    sketch = Sketch()
    x = sketch.through_integers("x", 0.03125, -5)
    stored = generator.integers(-127, 128, (shape[1], outputs, *size)).astype(np.int8)
    scales = np.array([0.004, 0.007]) if per_output and group == 1 else np.array([0.004])
    weights = sketch.dequantized(stored, scales, axis=1)
    bias = sketch.constant(generator.normal(0, 1, outputs * group).astype(np.float32))
    y = sketch.node("ConvTranspose", x, weights, bias, **attributes)
    y = sketch.through_integers(sketch.node("Relu", y), 0.0417, -3)
    network = assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": shape}, y), 0.0417)
    if name == "doubled":
        assert not any(isinstance(node.operator, Rearrange) for node in network.nodes)
    assert_circuit_agrees(network)


@pytest.mark.parametrize("name", ["doubled", "overlapping"])
def test_float_models_upsample(tmp_path: Path, name: str) -> None:
    """An addition behind it, as TensorFlow has biases, an activation, and accumulators that leave as they are."""
    shape, size, attributes = CASES[name]
    generator = np.random.default_rng(0)
    sketch = Sketch()
    weights = (generator.normal(0, 0.4, (shape[1], 2, *size)).astype(np.float32) for _ in range(2))
    y = sketch.node("ConvTranspose", "x", sketch.constant(next(weights)), **attributes)
    y = sketch.node("Relu", sketch.node("Add", y, sketch.constant(np.array([1, -1], "f").reshape(2, 1, 1))))
    z = sketch.node("Conv", y, sketch.constant(generator.normal(0, 0.4, (2, 2, 3, 3)).astype(np.float32)))
    path = write(sketch, tmp_path / "m.onnx", {"x": shape}, z)
    frames = random_frames(flow.read(path))
    network = flow.quantize(flow.read(path), frames)
    (found,), (wanted,) = (values.values() for values in (golden.run(network, frames), by_onnxruntime(path, frames)))
    assert np.abs(found - wanted).max() < 0.05 * np.ptp(wanted)
    assert_circuit_agrees(network)


@pytest.mark.parametrize("name", ["doubled", "cut"])
def test_accumulators_leave(tmp_path: Path, name: str) -> None:
    shape, size, attributes = CASES[name]
    stored = np.random.default_rng(0).integers(-127, 128, (shape[1], 2, *size)).astype(np.int8)
    sketch = Sketch()
    x = sketch.through_integers("x", 0.03125, -5)
    y = sketch.node("ConvTranspose", x, sketch.dequantized(stored, [0.004]), **attributes)
    y = sketch.node("Clip", sketch.node("Mul", y, sketch.constant(np.float32(0.5))), sketch.constant(np.float32(-0.7)))
    path = write(sketch, tmp_path / "m.onnx", {"x": shape}, y)
    assert_circuit_agrees(assert_agrees(path, 1e-5, rarely=0))


@pytest.mark.parametrize("name", ["overlapping", "cut", "signal"])
def test_functions_of_what_has_yet_to_move(tmp_path: Path, name: str) -> None:
    """An activation straight behind accumulators whose places are settled only once they are quantized."""
    shape, size, attributes = CASES[name]
    stored = np.random.default_rng(0).integers(-127, 128, (shape[1], 2, *size)).astype(np.int8)
    sketch = Sketch()
    x = sketch.through_integers("x", 0.03125, -5)
    y = sketch.node("ConvTranspose", x, sketch.dequantized(stored, [0.004, 0.003], axis=1), **attributes)
    slopes = sketch.constant(np.array([0.25, 0.1], "f").reshape(2, *[1] * len(size)))
    y = sketch.node("PRelu", sketch.node("LeakyRelu", y, alpha=0.5), slopes)
    turned = sketch.node("Transpose", y, perm=[0, 1, *range(2, len(shape))][::-1])
    y = sketch.through_integers(turned, 0.0417, -3)
    assert_circuit_agrees(assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": shape}, y), 0.0417))


def test_too_many_phases(tmp_path: Path) -> None:
    """Side by side, of one pixel."""
    sketch = Sketch()
    x = sketch.through_integers("x", 0.03125, 0)
    weights = sketch.dequantized(np.ones((1, 1, 1, 1), np.int8), np.array([0.5]))
    y = sketch.node("ConvTranspose", x, weights, strides=[257, 256])
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 1, 1, 2]}, sketch.through_integers(y, 0.5, 0))
    with pytest.raises(UserError, match="must be at most 65,536, not 65,792"):
        flow.quantize(flow.read(path))
