"""Factors of either sign behind a product, whose sums are too many for a table: against exact rationals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lower.test_lowering_exactness import check
from onnx import TensorProto
from onnx_hw import flow
from onnx_hw.onnx.canonicalize.fold_scales_into_weights import fold_scales_into_weights
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.evaluate.fold_constants import fold
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.ops.depthwise import Depthwise
from onnx_hw.ops.matmul import MatMul
from quantization.test_float_models import Floats, quantized
from support.exact_reference import LIMITS
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, random_frames, write
from support.qdq_models import Sketch

CHANNELS = 6


def product(s: Sketch, x: str, kind: str, generator: np.random.Generator) -> str:
    """Sums of 600 · 2^14: more than a table holds, unless they are of one channel each."""
    low, high = LIMITS[np.dtype(np.int8)]
    shape = {"Conv": (CHANNELS, 24, 5, 5), "depthwise": (CHANNELS, 1, 5, 5), "MatMul": (600, CHANNELS)}[kind]
    weights = generator.integers(low, high + 1, shape).astype(np.int8)
    axis = 1 if kind == "MatMul" else 0
    scales = generator.uniform(1e-5, 3e-5, CHANNELS).astype(np.float32)
    stored = s.dequantized(weights, scales, axis=axis)
    if kind == "MatMul":
        return s.node("MatMul", x, stored)
    return s.node("Conv", x, stored, group=CHANNELS if kind == "depthwise" else 1)


@pytest.mark.parametrize("behind", ["Mul", "Div", "Sub", "Clip", "both"])
@pytest.mark.parametrize("kind", ["Conv", "depthwise", "MatMul"])
def test_sums_turn_with_their_weights(tmp_path: Path, kind: str, behind: str) -> None:
    generator = np.random.default_rng(len(behind) + 10 * len(kind))
    s = Sketch()
    given = {"Conv": (1, 24, 5, 5), "depthwise": (1, CHANNELS, 5, 6), "MatMul": (1, 600)}[kind]
    column = (CHANNELS,) if kind == "MatMul" else (CHANNELS, 1, 1)
    factors = (generator.uniform(0.3, 2, column) * generator.choice([-1, 1], column)).astype(np.float32)
    factors.reshape(-1)[:2] = -0.75, 0 if behind == "Mul" else 1
    x = s.node("DequantizeLinear", "x", s.constant(np.float32(0.05)), s.constant(np.int8(7)))
    sums = y = product(s, x, kind, generator)
    if behind in ("Mul", "Div"):
        y = s.node(behind, s.node("Add", y, s.constant(np.float32(0.5))), s.constant(factors))
    elif behind == "Sub":
        y = s.node("Sub", s.constant(factors), y)
    elif behind == "both":  # the sums are also needed as they are
        y = s.node("Mul", y, s.constant(factors))
    else:  # bounds move along with a factor
        y = s.node("Clip", y, s.constant(np.float32(-0.4)), s.constant(np.float32(0.9)))
        y = s.node("Add", s.node("Mul", y, s.constant(np.float32(1.5))), s.constant(np.float32(0.25)))
    y = s.node("Relu", y) if behind in ("Mul", "Sub") else y
    zero = s.constant(np.int8(-3))
    ends = [s.node("QuantizeLinear", y, s.constant(np.float32(0.0123)), zero)]
    if behind == "both":
        ends.append(s.node("QuantizeLinear", sums, s.constant(np.float32(0.0123)), zero))
        both = [s.node("DequantizeLinear", end, s.constant(np.float32(0.0123)), zero) for end in ends]
        ends = [s.node("QuantizeLinear", s.node("Sub", *both), s.constant(np.float32(0.02)), zero)]
    model = s.model(given, TensorProto.INT8, ends[-1], 2 if kind == "MatMul" else 4)
    check(tmp_path / "m.onnx", model, generator.integers(-128, 128, (2, *given)).astype(np.int8))
    network = flow.quantize(flow.read(tmp_path / "m.onnx"))
    assert sum(isinstance(node.operator, MatMul | Depthwise) for node in network.nodes) == (
        2 if behind == "both" else 1
    )
    assert_circuit_agrees(network)


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("behind", ["BatchNormalization", "Mul", "Add"])
def test_factors_are_in_the_weights_of_a_transposed_convolution(tmp_path: Path, group: int, behind: str) -> None:
    s = Floats(group)
    y = s.node("ConvTranspose", "x", s.array(4, 8 // group, 3, 3), s.array(8), strides=[2, 2], group=group)
    if behind == "BatchNormalization":
        y = s.batch_normalization(y, 8)
    else:
        y = s.node(behind, y, s.constant(np.linspace(-2, 2, 8).astype(np.float32).reshape(8, 1, 1)))
    y = s.conv(s.node("Relu", y), 3, 8)
    model = fold(infer(flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 4, 5, 4]}, y))))
    prepared = fold_scales_into_weights(model)
    assert not {"Mul", "BatchNormalization"} & {node.op_type for node in prepared.graph.nodes}
    for frame in random_frames(model)["x"]:
        (found,), (wanted,) = (reference.run(m, {"x": frame}).values() for m in (prepared, model))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    quantized(s, tmp_path, y, x=[1, 4, 5, 4])


@pytest.mark.parametrize("first", ["Relu", "Clip"])
def test_a_normalization_behind_bounds_of_wide_sums(tmp_path: Path, first: str) -> None:
    """Conv, activation, normalization: bounds of each channel's own, which need integers in between."""
    s = Floats()
    y = s.conv("x", 6, 96, 5)
    y = (
        s.node("Relu", y)
        if first == "Relu"
        else s.node("Clip", y, s.constant(np.float32(-1)), s.constant(np.float32(6)))
    )
    quantized(s, tmp_path, s.conv(s.batch_normalization(y, 6), 3, 6, 1), x=[1, 96, 7, 6])


def test_scales_per_output_of_a_group(tmp_path: Path) -> None:
    """Those of a ConvTranspose's weights are the same in every group."""
    generator, s = np.random.default_rng(0), Sketch()
    stored = generator.integers(-127, 128, (4, 3, 2, 2)).astype(np.int8)
    weights = s.dequantized(stored, np.array([0.004, 0.007, 0.002]), axis=1)
    y = s.node("ConvTranspose", s.through_integers("x", 0.03125, -5), weights, strides=[2, 2], group=2)
    path = write(s, tmp_path / "m.onnx", {"x": [1, 4, 3, 3]}, s.through_integers(y, 0.0417, -3))
    assert_circuit_agrees(assert_agrees(path, 0.0417))
