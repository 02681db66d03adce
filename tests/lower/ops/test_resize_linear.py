"""Linear Resize: the formulas against those of the operator, whole models against onnxruntime, and the circuit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.lower.ops.resize_linear import _asymmetric_taps, _half_pixel_taps
from onnx_hw.onnx.operators.resize import Interpolation, interpolation_weights, source_positions
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.pool import Pool
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, write
from support.qdq_models import Sketch

WAYS = {"half_pixel": _half_pixel_taps, "pytorch_half_pixel": _half_pixel_taps, "asymmetric": _asymmetric_taps}


@given(st.integers(1, 9), st.integers(1, 9), st.booleans(), st.sampled_from(sorted(WAYS)))
def test_sums_have_the_weights_of_the_operator(size: int, times: int, more: bool, coordinates: str) -> None:
    size, new = (size, size * times) if more else (size * times, size)
    if coordinates == "pytorch_half_pixel" and new == 1:
        return  # its own formula
    factor = new / size
    places = source_positions(size, new, factor, coordinates, (0, 1))
    wanted = interpolation_weights(places, size, factor, Interpolation("linear", coordinates))
    taps = WAYS[coordinates](size, new)
    assert taps is not None
    np.testing.assert_allclose(taps.weights(size), wanted, atol=1e-12)


def resized(sketch: Sketch, x: str, scales: list[float], **how: object) -> str:
    return sketch.node("Resize", x, "", sketch.constant(np.array([1, 1, *scales], "f")), mode="linear", **how)


def model(path: Path, scales: list[float], shape: list[int], **how: object) -> Path:
    sketch = Sketch(opset=18)
    y = resized(sketch, sketch.through_integers("x", 0.03125, -5), scales, **how)
    return write(sketch, path, {"x": shape}, sketch.through_integers(y, 0.03125, -5))


# sums of sixths are often ties, which onnxruntime in float32 sees on either side: no factors of 2 and 3 at once
CASES: dict[str, tuple[list[float], list[int], dict[str, object], type | None]] = {
    "twice": ([2, 2], [1, 3, 4, 5], {}, Depthwise),
    "four times": ([4, 4], [1, 2, 3, 2], {"coordinate_transformation_mode": "pytorch_half_pixel"}, Depthwise),
    "three times": ([3, 3], [1, 3, 3, 4], {}, Pool),
    "ahead": ([2, 4], [1, 3, 4, 3], {"coordinate_transformation_mode": "asymmetric"}, Pool),
    "of one pixel": ([2, 2], [1, 3, 1, 1], {}, Depthwise),
    "rows alone": ([2, 1], [1, 3, 4, 5], {}, Depthwise),
    "a signal": ([2], [1, 3, 7], {}, Depthwise),
    "a half": ([0.5, 0.5], [1, 3, 4, 6], {}, Pool),
    "a third": ([1 / 3, 1 / 3], [1, 3, 6, 9], {}, None),
    "both ways": ([2, 0.5], [1, 3, 4, 6], {}, Depthwise),
}


@pytest.mark.parametrize("name", CASES)
def test_models(tmp_path: Path, name: str) -> None:
    scales, shape, how, kind = CASES[name]
    network = assert_agrees(model(tmp_path / "m.onnx", scales, shape, **how), 0.03125)
    kinds = {type(node.operator) for node in network.nodes}
    assert kinds & {Depthwise, Pool} == ({kind} if kind else set())
    if name in ("twice", "a signal"):
        assert_circuit_agrees(network)


def test_accumulators_with_scales_per_channel_are_interpolated(tmp_path: Path) -> None:
    sketch = Sketch(opset=18)
    weights = np.random.default_rng(0).integers(-127, 128, (3, 4, 1, 1)).astype(np.int8)
    y = sketch.node(
        "Conv", sketch.through_integers("x", 0.03125, -5), sketch.dequantized(weights, [0.001, 0.003, 0.002])
    )
    y = sketch.through_integers(resized(sketch, y, [2, 2]), 0.03125, 3)
    assert_circuit_agrees(assert_agrees(write(sketch, tmp_path / "m.onnx", {"x": [1, 4, 3, 4]}, y), 0.03125))


def test_a_float_model_has_a_product_behind_it(tmp_path: Path) -> None:
    sketch = Sketch(opset=18)
    weights = np.random.default_rng(0).normal(0, 0.3, (3, 2, 3, 3)).astype(np.float32)
    y = sketch.node("Conv", resized(sketch, "x", [2, 2]), sketch.constant(weights), pads=[1, 1, 1, 1])
    path = write(sketch, tmp_path / "m.onnx", {"x": [1, 2, 4, 4]}, y)
    frames = {"x": np.random.default_rng(1).uniform(-1, 1, (8, 1, 2, 4, 4)).astype(np.float32)}
    network = flow.quantize(flow.read(path), frames)
    assert Depthwise in {type(node.operator) for node in network.nodes}
