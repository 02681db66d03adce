"""Schemes: the usual one by its numbers; others from a float model to golden, held against the rewritten model."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_hw import flow
from onnx_hw.exact.integers import Int
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.graph.model import Model
from onnx_hw.ops.matmul import MatMul
from onnx_hw.prove.model.compare import TensorComparison, compare
from onnx_hw.quantization.quantize import Quantized, prepare_model, quantize_model
from onnx_hw.quantization.ranges.calibrate import Range, RangeMethod, SampleRanges, calibrate
from onnx_hw.quantization.scheme import Precision, Scheme
from support.fixture_paths import EXAMPLES
from support.onnx_oracle import assert_circuit_agrees, random_frames, write
from support.qdq_models import Sketch
from support.random_float_models import FloatDrawing

numbers = st.floats(-1e6, 1e6, width=32)


@given(numbers, numbers)
def test_the_usual_data(first: float, second: float) -> None:
    """int8, asymmetric, as QuantizeLinear's users know it."""
    span = Range(*sorted((first, second)))
    grid = Precision().data_grid(span)
    low, high = min(span.low, 0.0), max(span.high, 0.0)
    scale = np.float32((high - low) / 255) if high > low else np.float32(1)
    scale = np.maximum(scale, np.finfo(np.float32).tiny)
    assert grid.step == (Fraction(float(scale)),)
    assert grid.zero_point == (min(max(round(-128 - low / float(scale)), -128), 127),)
    assert (grid.low, grid.high, grid.dtype) == (-128, 127, Int(8))
    assert grid.real(int(grid.zero_point[0])) == 0


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_usual_weights(axis: int) -> None:
    """int8, symmetric, a scale per output; an output without weights other than 0 among them."""
    weights = np.random.default_rng(axis).normal(0, 0.3, (5, 4, 3)).astype(np.float32)
    weights[(slice(None),) * axis + (1,)] = 0
    grid = Scheme().weights.weight_grid(weights, axis)
    largest = np.abs(weights).max(axis=tuple(k for k in range(3) if k != axis), keepdims=True)
    scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    assert [float(step) for step in grid.step] == scale.reshape(-1).tolist()
    assert np.array_equal(grid.integers(weights, axis), np.clip(np.rint(weights / scale), -127, 127))


@settings(max_examples=60)
@given(st.integers(1, 16), st.booleans(), numbers, numbers)
def test_data_of_any_width(bits: int, symmetric: bool, first: float, second: float) -> None:
    """0 is exact, and what was seen is off by half a step at most, or by one where the zero point was rounded."""
    span = Range(*sorted((first, second)))
    precision = Precision(max(bits, 1 + symmetric), symmetric)
    grid = precision.data_grid(span)
    assert grid.dtype == Int(precision.bits) and grid.integer(Fraction(0)) == grid.zero_point[0]
    for number in (span.low, span.high):
        error = abs(grid.real(grid.integer(number)) - Fraction(number))
        assert error <= grid.step[0] * Fraction(1001, 1000)
    assert grid.zero_point == (0,) or not symmetric


@settings(max_examples=30)
@given(st.integers(1, 16), st.booleans(), st.booleans(), st.integers(0, 99))
def test_weights_of_any_width(bits: int, symmetric: bool, per_channel: bool, seed: int) -> None:
    precision = Precision(max(bits, 1 + symmetric), symmetric, per_channel)
    weights = np.random.default_rng(seed).normal(0.1, 1, (3, 5)).astype(np.float32)
    grid = precision.weight_grid(weights, 0)
    assert len(grid.step) == (3 if per_channel else 1)
    integers = grid.integers(weights, 0)
    assert integers.min() >= (-grid.dtype.max if symmetric else grid.dtype.min) and integers.max() <= grid.dtype.max
    step = np.array([float(step) for step in grid.step])[:, None]
    zero = np.array([float(zero) for zero in grid.zero_point])[:, None] if per_channel else float(grid.zero_point[0])
    assert (np.abs((integers - zero) * step - weights) <= 1.001 * step).all()


# ---- whole models ---------------------------------------------------------------------------------------------------


@cache
def digits() -> tuple[Model, Mapping[str, np.ndarray]]:
    with np.load(EXAMPLES / "digits" / "digits_calibration.npz") as stored:
        return flow.read(EXAMPLES / "digits" / "digits_float.onnx"), {"image": stored["image"][:6]}


def quantized(scheme: Scheme | None) -> tuple[Quantized, TensorComparison]:
    """Golden of the digits is what the rewritten ONNX model says, tensor by tensor."""
    model, frames = digits()
    method = (scheme or Scheme()).ranges
    made = quantize_model(prepare_model(model), SampleRanges(frames, method), scheme)
    compared = compare(made.model, made.network, frames, made.floats)
    assert compared.agreement.frames >= 4 and compared.agreement.worst <= 1
    return made, compared


def quality(compared: TensorComparison) -> float:
    """The worst tensor's signal to noise, dB."""
    assert compared.fidelity is not None
    return min(likeness.sqnr_db or 200.0 for likeness in compared.fidelity.tensors.values())


def widths(made: Quantized) -> set[int]:
    """Bits of all streams but those of sums."""
    sums = {name for node in made.network.nodes if isinstance(node.operator, MatMul) for name in node.outputs}
    return {tensor.dtype.bits for name, tensor in made.network.tensors.items() if name not in sums}


def test_the_usual_scheme_is_what_there_is_without_one() -> None:
    (given, _), (usual, compared) = quantized(Scheme()), quantized(None)
    assert repr(given.network) == repr(usual.network) and given.network.grids == usual.network.grids
    assert widths(usual) == {8} and quality(compared) > 30


@pytest.mark.parametrize("bits", [1, 3, 6, 10, 12, 16])
def test_data_of_any_width_in_a_network(bits: int) -> None:
    """The streams are as wide as the scheme says, from the first to the last."""
    made, compared = quantized(Scheme(data=Precision(bits), weights=Precision(8, True, True)))
    assert widths(made) == {bits}
    assert all(grid.bits == bits for grid in made.network.grids.values())
    assert bits < 6 or quality(compared) > (20 if bits == 6 else 35)


@pytest.mark.parametrize("bits", [2, 4, 6, 12])
def test_weights_of_any_width_in_a_network(bits: int) -> None:
    made, _ = quantized(Scheme(weights=Precision(bits, True, True)))
    for node in made.network.nodes:
        if isinstance(node.operator, MatMul):
            most = (1 << bits - 1) - 1
            largest = np.abs(node.operator.weights).max(axis=1)
            assert (largest <= most).all() and (largest > most * 0.6).any()


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(data=Precision(8, symmetric=True)),
        Scheme(weights=Precision(8, symmetric=True)),
        Scheme(weights=Precision(7)),
        Scheme(weights=Precision(8, per_channel=True)),
        Scheme(ranges=RangeMethod.MEAN),
    ],
)
def test_zero_points_scales_and_ranges(scheme: Scheme) -> None:
    made, compared = quantized(scheme)
    assert quality(compared) > (20 if scheme.ranges is RangeMethod.MIN_MAX else 15)
    if scheme.data.symmetric:
        assert {zero for grid in made.network.grids.values() for zero in grid.zero_point} == {0}


def test_one_scale_for_all_outputs_is_coarser() -> None:
    each, one = (quantized(Scheme(weights=Precision(6, True, per_channel)))[1] for per_channel in (True, False))
    assert quality(each) > quality(one)


def test_ranges_are_the_mean_of_those_of_the_samples() -> None:
    model, frames = digits()
    each = [calibrate(model, {"image": frames["image"][k : k + 1]}) for k in range(6)]
    found = calibrate(model, frames, method=RangeMethod.MEAN)
    for name, span in found.items():
        assert span.low == pytest.approx(np.mean([of[name].low for of in each]), abs=1e-6)
        assert span.high == pytest.approx(np.mean([of[name].high for of in each]), abs=1e-6)


def test_overrides_are_of_what_they_name_alone() -> None:
    usual, _ = quantized(None)
    nodes = [node for node in usual.network.nodes if isinstance(node.operator, MatMul)]
    value = list(usual.network.grids)[1].removesuffix("/int8")
    scheme = Scheme(data_overrides={value: Precision(5)}, weight_overrides={nodes[1].origin[0]: Precision(3, True)})
    made, _ = quantized(scheme)
    assert sorted({grid.bits for grid in made.network.grids.values()}) == [5, 8]
    largest = [np.abs(n.operator.weights).max() for n in made.network.nodes if isinstance(n.operator, MatMul)]
    assert largest[1] == 3 and min(largest[0], largest[2]) > 60


@pytest.mark.parametrize("pad", [False, True])
def test_a_clip_says_how_wide_integers_are(tmp_path: Path, pad: bool) -> None:
    """Of int8 from -32 to 31 six bits travel; but not where the integers themselves are padded with others."""
    sketch = Sketch()
    weights = sketch.dequantized(np.random.default_rng(0).integers(-90, 90, (2, 2, 1, 1)).astype(np.int8), 0.02)
    y = sketch.node("Conv", sketch.through_integers("x", 0.05, 3), weights)
    y = sketch.node("Clip", y, *(sketch.constant(np.float32(bound)) for bound in (-8, 7.75)))
    scale, zero = sketch.constant(np.float32(0.25)), sketch.constant(np.int8(0))
    y = sketch.node("QuantizeLinear", y, scale, zero)
    if pad:
        pads = sketch.constant(np.array([0, 0, 1, 1, 0, 0, 0, 0]))
        y = sketch.node("Pad", y, pads, sketch.constant(np.int8(-100)))
    y = sketch.node("Conv", sketch.node("DequantizeLinear", y, scale, zero), weights)
    model = flow.read(sketch.write(tmp_path / "m.onnx", [1, 2, 3, 3], sketch.through_integers(y, 0.1, 0)))
    network = flow.quantize(model)
    assert network.tensors["quantizelinear5"].dtype == Int(8 if pad else 6)
    assert compare(model, network, None).agreement.worst <= 1


@pytest.mark.parametrize("seed", range(6))
def test_drawn_models(tmp_path: Path, seed: int) -> None:
    """Any scheme of data of up to 8 bits (sums of two tensors take long beyond); one of them as a circuit."""
    generator = np.random.default_rng(seed)
    drawing = FloatDrawing(seed)
    model = flow.read(write(drawing.sketch, tmp_path / "m.onnx", *_graph(drawing, seed)))
    data = Precision(int(generator.integers(3, 9)), bool(seed % 2))
    weights = Precision(int(generator.integers(3, 13)), bool(generator.integers(2)), bool(generator.integers(2)))
    frames = random_frames(model, 3)
    made = quantize_model(prepare_model(model), SampleRanges(frames), Scheme(data, weights))
    compared = compare(made.model, made.network, frames, made.floats)
    assert compared.agreement.frames == 4 and compared.agreement.values_compared > 0
    if seed == 1:
        assert_circuit_agrees(made.network)


def _graph(drawing: FloatDrawing, seed: int) -> tuple[object, ...]:
    inputs, outputs = drawing.draw(3 + seed % 4)
    return inputs, *outputs


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Precision(17), "must have 1 to 16 bits, not 17"),
        (lambda: Precision(0), "must have 1 to 16 bits, not 0"),
        (lambda: Precision(1, symmetric=True), "symmetric integers must have 2 to 16 bits, not 1"),
        (lambda: Scheme(data=Precision(per_channel=True)), "one scale for all channels, not one per channel"),
        (lambda: quantized(Scheme(data_overrides={"nobody": Precision(4)})), "`nobody` is not one"),
        (
            lambda: quantized(Scheme(weight_overrides={"nobody": Precision(4)})),
            "weights are quantized; `nobody`",
        ),
        (
            lambda: flow.quantize(flow.read(EXAMPLES / "digits" / "digits.onnx"), scheme=Scheme()),
            "`digits` brings all of its own",
        ),
    ],
)
def test_schemes_that_say_nothing_true(wrong, message: str) -> None:
    with pytest.raises(UserError, match=message):
        wrong()
