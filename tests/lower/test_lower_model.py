"""QDQ import: the network means what exact rationals say, and what onnxruntime says up to its float32."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from support.fixture_paths import model as real_model
from support.onnx_oracle import output_by_onnxruntime
from support.qdq_models import Sketch

quick = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@quick
@given(
    data=st.data(),
    channels=st.integers(1, 4),
    outputs=st.integers(1, 5),
    kernel=st.sampled_from([(1, 1), (3, 3), (2, 3)]),
    seed=st.integers(0, 2**31),
)
def test_conv_means_its_exact_formula(
    tmp_path: Path, data: st.DataObject, channels: int, outputs: int, kernel: tuple[int, int], seed: int
) -> None:
    """``clamp(rhe((s_x·s_w·Σ(x − z)(w − z_w) + β)/s_y) + z_y)``, every scale the rational of its float32."""
    generator = np.random.default_rng(seed)
    strides = data.draw(st.sampled_from([(1, 1), (2, 1), (2, 2)]))
    pads = data.draw(st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0)]))
    zero_x, zero_y = data.draw(st.integers(-128, 127)), data.draw(st.integers(-128, 127))
    zero_w = generator.integers(-3, 4, outputs).astype(np.int8)
    scale_x = np.float32(data.draw(st.sampled_from([1.0, 0.25, 0.0371, 1 / 255])))
    scale_y = np.float32(data.draw(st.sampled_from([1.0, 0.5, 0.0913, 0.7])))
    scale_w = (generator.choice([0.5, 0.031, 0.0077], outputs) * 0.125).astype(np.float32)
    relu = data.draw(st.booleans())
    weights = generator.integers(-128, 128, (outputs, channels, *kernel)).astype(np.int8)
    bias = generator.integers(-500, 500, outputs).astype(np.int32)
    scale_b = (scale_x * scale_w).astype(np.float32)

    sketch = Sketch()
    x = sketch.through_integers("x", scale_x, zero_x)
    w = sketch.dequantized(weights, scale_w, zero_w)
    b = sketch.dequantized(bias, scale_b, np.zeros(outputs, dtype=np.int32))
    y = sketch.node("Conv", x, w, b, kernel_shape=kernel, strides=strides, pads=pads)
    y = sketch.node("Relu", y) if relu else y
    path = sketch.write(tmp_path / "m.onnx", [1, channels, 5, 6], sketch.through_integers(y, scale_y, zero_y))
    network = import_model(flow.read(path))

    frame = generator.uniform(-140, 140, (1, 1, channels, 5, 6)).astype(np.float32) * scale_x
    integers = golden.integers_of(network, {"x": frame})
    values = golden.trace(network, integers)
    found = values[network.outputs[0].tensor][0]

    image = next(iter(integers.values()))[0].transpose(2, 0, 1) - zero_x
    padded = np.pad(image, ((0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    low = max(-128, zero_y) if relu else -128
    for row, column, output in np.ndindex(*found.shape):
        top, left = row * strides[0], column * strides[1]
        window = padded[:, top : top + kernel[0], left : left + kernel[1]]
        total = int((window * (weights[output].astype(np.int64) - int(zero_w[output]))).sum())
        exact = Fraction(float(scale_x)) * Fraction(float(scale_w[output])) * total
        exact += int(bias[output]) * Fraction(float(scale_b[output]))
        expected = min(max(round(exact / Fraction(float(scale_y))) + zero_y, low), 127)
        assert found[row, column, output] == expected, (row, column, output)


@quick
@given(
    seed=st.integers(0, 2**31), flatten=st.sampled_from(["Flatten", "Reshape", "TransposeReshape"]), gemm=st.booleans()
)
def test_layout_is_only_a_matter_of_order(tmp_path: Path, seed: int, flatten: str, gemm: bool) -> None:
    """Conv, pool, flatten in several ways, dense: against onnxruntime."""
    generator = np.random.default_rng(seed)
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    w = sketch.dequantized(
        generator.integers(-127, 128, (3, 2, 3, 3)).astype(np.int8), generator.uniform(0.001, 0.01, 3)
    )
    y = sketch.through_integers(sketch.node("Relu", sketch.node("Conv", x, w, pads=[1, 1, 1, 1])), 0.03, -128)
    y = sketch.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    if flatten == "Flatten":
        y = sketch.node("Flatten", y)
    else:
        if flatten == "TransposeReshape":
            y = sketch.node("Transpose", y, perm=[0, 2, 3, 1])
        y = sketch.node("Reshape", y, sketch.constant(np.array([1, -1])))
    dense = generator.integers(-127, 128, (18, 4)).astype(np.int8)
    bias = generator.uniform(-1, 1, 4).astype(np.float32)
    if gemm:
        y = sketch.node(
            "Gemm", y, sketch.dequantized(dense.T.copy(), [0.01]), sketch.constant(bias), transB=1, alpha=0.5
        )
    else:
        y = sketch.node("Add", sketch.node("MatMul", y, sketch.dequantized(dense, [0.01])), sketch.constant(bias))
    y = sketch.through_integers(y, 0.05, 7)
    path = sketch.write(tmp_path / "m.onnx", [1, 2, 6, 4], y, rank=2)
    frames = generator.uniform(-2, 2, (3, 1, 2, 6, 4)).astype(np.float32)
    found = golden.run(import_model(flow.read(path)), {"x": frames})[y]
    assert np.abs(found - output_by_onnxruntime(path, frames)).max() <= 0.05 * 1.001  # one step
    assert (np.abs(found - output_by_onnxruntime(path, frames)) < 0.01).mean() > 0.9


def test_pools_and_clip_against_onnxruntime(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    y = sketch.node("Clip", x, sketch.constant(np.float32(-1)), sketch.constant(np.float32(1.5)))
    y = sketch.through_integers(y, 0.011, -5)
    y = sketch.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
    y = sketch.node("AveragePool", y, kernel_shape=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1)
    y = sketch.through_integers(y, 0.007, 11)
    y = sketch.through_integers(sketch.node("GlobalAveragePool", y), 0.003, 0)
    path = sketch.write(tmp_path / "m.onnx", [1, 3, 8, 7], y)
    frames = generator.uniform(-2.5, 2.5, (8, 1, 3, 8, 7)).astype(np.float32)
    found = golden.run(import_model(flow.read(path)), {"x": frames})[y]
    wanted = output_by_onnxruntime(path, frames)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 0.003 * 1.001


def test_a_zero_point_that_is_left_out_is_0(tmp_path: Path) -> None:
    """Of integers without a sign, as ONNX has it."""
    sketch, value, steps = Sketch(), "x", (0.25, 1.0, 0.5)
    for step in steps:
        scale = sketch.constant(np.float32(step))
        value = sketch.node("DequantizeLinear", sketch.node("QuantizeLinear", value, scale), scale)
        value = sketch.node("MaxPool", value, kernel_shape=[1, 2])
    path = sketch.write(tmp_path / "m.onnx", [1, 1, 4, 9], value)
    frames = np.random.default_rng(5).uniform(-9, 90, (4, 1, 1, 4, 9)).astype(np.float32)
    found, expected = golden.run(import_model(flow.read(path)), {"x": frames})[value], frames
    for step in steps:
        expected = np.clip(np.rint(expected / step), 0, 255) * step
        expected = np.maximum(expected[..., :-1], expected[..., 1:])
    assert np.array_equal(found, expected) and np.unique(found).size > 9


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "operator"), [([4, 3], "Reduce"), ([3, 3], "Pool")])
def test_a_pool_over_the_whole_image_is_a_reduction(
    tmp_path: Path, op_type: str, kernel: list[int], operator: str
) -> None:
    sketch = Sketch()
    y = sketch.node(op_type, sketch.through_integers("x", 0.02, 3), kernel_shape=kernel)
    path = sketch.write(tmp_path / "m.onnx", [1, 2, 4, 3], sketch.through_integers(y, 0.015, -2))
    network = import_model(flow.read(path))
    assert type(network.nodes[0].operator).__name__ == operator
    frames = np.random.default_rng(0).uniform(-2.5, 2.5, (8, 1, 2, 4, 3)).astype(np.float32)
    (found,) = golden.run(network, {"x": frames}).values()
    assert np.abs(found - output_by_onnxruntime(path, frames)).max() <= 0.015 * 1.001


def test_all_obstacles_at_once_with_their_names(tmp_path: Path) -> None:
    sketch = Sketch()
    x = sketch.through_integers("x", 0.02, 3)
    w = sketch.dequantized(np.ones((4, 1, 3, 3), dtype=np.int8), [0.01])
    y = sketch.through_integers(sketch.node("Conv", x, w, group=4), 0.1, 0)
    y = sketch.node("LRN", y, size=3)
    w2 = sketch.dequantized(np.ones((2, 4, 1, 1), dtype=np.int8), [0.01])
    y = sketch.node("Conv", y, w2)
    y = sketch.through_integers(y, 0.1, 0)
    path = sketch.write(tmp_path / "m.onnx", [1, 4, 8, 8], y)
    with pytest.raises(UserError) as caught:
        import_model(flow.read(path))
    told = str(caught.value)
    assert "LRN" in told or "Conv" in told
    assert all(problem.where for problem in caught.value.problems)


def test_a_float_model_is_refused_with_the_way_out(tmp_path: Path) -> None:
    sketch = Sketch()
    y = sketch.node("Conv", "x", sketch.constant(np.ones((2, 1, 3, 3), dtype=np.float32)))
    path = sketch.write(tmp_path / "m.onnx", [1, 1, 8, 8], y)
    with pytest.raises(UserError, match="let a build choose a scale from samples"):
        import_model(flow.read(path))


@pytest.mark.parametrize(
    "name",
    [
        "mlperf_tiny_ad_autoencoder_int8",
        "mlperf_tiny_kws_dscnn_int8",
        "tinymaix_mnist_dw_int8",
        "tinymaix_mnist_valid_int8",
    ],
)
def test_real_int8_models_give_the_stored_integers(name: str) -> None:
    folder = real_model(name)
    network = import_model(flow.read(folder / "model.onnx"))
    with np.load(folder / "inputs.npz") as stored:
        frames = {key: stored[key] for key in stored}
    found = golden.run(network, frames)
    with np.load(folder / "outputs.npz") as stored:
        for key in stored:
            difference = np.abs(found[key].astype(np.int64) - stored[key])
            assert (difference == 0).mean() >= 0.999
            assert difference.max() <= 1
