"""Calibration: float models become QDQ models that compute nearly the same; bad data is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.canonicalize.is_quantized import is_quantized
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Model
from onnx_hw.ops.add import Add
from onnx_hw.quantization.post_training import quantize_float_model
from onnx_hw.quantization.ranges.calibrate import RangeMethod, calibrate
from onnx_hw.quantization.ranges.synthetic import synthetic_frames
from support.fixture_paths import EXAMPLES
from support.fixture_paths import model as real_model
from support.qdq_models import Sketch

DIGITS = EXAMPLES / "digits"


def load_frames(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as stored:
        return {key: stored[key] for key in stored if key != "labels"}


def outputs(model: Model, frames: dict[str, np.ndarray]) -> np.ndarray:
    count = len(next(iter(frames.values())))
    each = [reference.run(model, {name: array[k] for name, array in frames.items()}) for k in range(count)]
    return np.stack([next(iter(values.values())) for values in each])


def sqnr(wanted: np.ndarray, found: np.ndarray) -> float:
    """Signal to quantization noise, dB."""
    return float(10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum()))


def test_digits_keep_their_accuracy() -> None:
    model = flow.read(DIGITS / "digits_float.onnx")
    assert not is_quantized(model)
    frames = load_frames(DIGITS / "digits_calibration.npz")
    quantized = quantize_float_model(model, frames)
    assert is_quantized(quantized)
    few = {name: array[:20] for name, array in frames.items()}
    # the rewritten model is still an ONNX model: the reference runs it
    assert sqnr(outputs(model, few), outputs(quantized, few)) > 20
    network = flow.quantize(model, frames)
    found = next(iter(golden.run(network, few).values()))
    assert sqnr(outputs(model, few), found) > 20
    assert (found.reshape(20, -1).argmax(1) == outputs(model, few).reshape(20, -1).argmax(1)).mean() >= 0.95


def test_a_real_float_model() -> None:
    folder = real_model("mnist8_cntk")
    model = flow.read(folder / "model.onnx")
    frames = load_frames(folder / "inputs.npz")
    found = next(iter(golden.run(flow.quantize(model, frames), frames).values()))
    with np.load(folder / "outputs.npz") as stored:
        wanted = stored[stored.files[0]]
    assert sqnr(wanted, found) > 30
    assert np.array_equal(found.reshape(16, -1).argmax(1), wanted.reshape(16, -1).argmax(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite(bad: float) -> None:
    model = flow.read(DIGITS / "digits_float.onnx")
    frames = synthetic_frames(model)
    name = next(iter(frames))
    frames[name][1].reshape(-1)[5] = bad
    with pytest.raises(UserError, match="must be finite"):
        calibrate(model, frames)


def test_without_data_the_library_asks_for_it() -> None:
    with pytest.raises(UserError, match="calibration frames"):
        flow.quantize(flow.read(DIGITS / "digits_float.onnx"))


@pytest.mark.parametrize("activation_first", [False, True])
def test_residual_blocks(tmp_path: Path, activation_first: bool) -> None:
    """Sums of two tensors get integers of their own; so does a Relu of what others read without it."""
    generator = np.random.default_rng(0)
    sketch = Sketch()

    def conv(x: str) -> str:
        weights = sketch.constant(generator.normal(0, 0.25, (4, 4, 3, 3)).astype(np.float32))
        bias = sketch.constant(generator.normal(0, 0.1, 4).astype(np.float32))
        return sketch.node("Conv", x, weights, bias, pads=[1, 1, 1, 1])

    x = sketch.node("MaxPool", conv("x"), kernel_shape=[2, 2], strides=[2, 2])
    for op_type in ("Add", "Sub"):
        y = conv(sketch.node("Relu", x)) if activation_first else sketch.node("Relu", conv(x))
        x = sketch.node(op_type, x, conv(y))
        x = x if activation_first else sketch.node("Relu", x)
    model = flow.read(sketch.write(tmp_path / "m.onnx", [1, 4, 8, 8], x))
    frames = {"x": generator.uniform(-1, 1, (8, 1, 4, 8, 8)).astype(np.float32)}
    network = flow.quantize(model, frames)
    assert network.tail is None or all(node.op_type == "DequantizeLinear" for node in network.tail.graph.nodes)
    assert sum(isinstance(node.operator, Add) for node in network.nodes) == 2
    found = next(iter(golden.run(network, frames).values()))
    assert sqnr(outputs(model, frames), found) > 25


def test_constants_behind_a_sum_and_an_input(tmp_path: Path) -> None:
    """A normalization per channel after a residual sum, and one of the input."""
    generator = np.random.default_rng(0)
    sketch = Sketch()

    def constant(low: float, high: float, *shape: int) -> str:
        return sketch.constant(generator.uniform(low, high, shape).astype(np.float32))

    x = sketch.node("Sub", sketch.node("Div", "x", constant(250, 255)), constant(0.4, 0.5))
    x = sketch.node("Conv", x, constant(-0.5, 0.5, 4, 4, 1, 1))
    total = sketch.node("Add", x, sketch.node("Conv", x, constant(-0.5, 0.5, 4, 4, 3, 3), pads=[1, 1, 1, 1]))
    scaled = sketch.node("Add", sketch.node("Mul", total, constant(0.5, 2, 4, 1, 1)), constant(-1, 1, 4, 1, 1))
    y = sketch.node("Add", total, sketch.node("Conv", sketch.node("Relu", scaled), constant(-0.5, 0.5, 4, 4, 1, 1)))
    model = flow.read(sketch.write(tmp_path / "m.onnx", [1, 4, 6, 6], y))
    frames = {"x": generator.uniform(0, 255, (8, 1, 4, 6, 6)).astype(np.float32)}
    found = next(iter(golden.run(flow.quantize(model, frames), frames).values()))
    assert sqnr(outputs(model, frames), found) > 25


def test_a_sum_on_the_host_stays_float(tmp_path: Path) -> None:
    """The host's operators read the whole sums of the product: nothing behind it needs few bits."""
    sketch = Sketch()
    x = sketch.node("Conv", "x", sketch.constant(np.ones((2, 1, 1, 1), dtype=np.float32)))
    y = sketch.node("Add", sketch.node("Softmax", x, axis=1), sketch.node("Sin", x))
    model = flow.read(sketch.write(tmp_path / "m.onnx", [1, 1, 3, 3], y))
    frames = {"x": np.random.default_rng(0).uniform(-1, 1, (4, 1, 1, 3, 3)).astype(np.float32)}
    network = flow.quantize(model, frames)
    behind = [node.op_type for node in network.tail.graph.nodes]
    assert {"Softmax", "Sin", "Add"} < set(behind) and behind[-1] == "Add" and "DequantizeLinear" not in behind
    assert sqnr(outputs(model, frames), golden.run(network, frames)[y]) > 35


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_every_sample_counts(order: tuple[int, ...], tmp_path: Path) -> None:
    """The least number, the greatest and the finest step are in different samples, in any order."""
    sketch = Sketch()
    path = sketch.write(tmp_path / "m.onnx", (1, 1, 1, 2), sketch.node("Neg", "x"))
    frames = np.array([[[-7.0, 0.0]], [[0.25, 0.5]], [[1.0, 9.0]]], np.float32)[[*order]].reshape(3, 1, 1, 1, 2)
    model = flow.read(path).frame.model
    found = calibrate(model, {"x": frames})["x"]
    assert (found.low, found.high, found.step) == (-7, 9, Fraction(1, 4))
    mean = calibrate(model, {"x": frames}, method=RangeMethod.MEAN)["x"]
    assert mean.low == pytest.approx((-7 + 0.25 + 1) / 3) and mean.high == pytest.approx((0 + 0.5 + 9) / 3)
