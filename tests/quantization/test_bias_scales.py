"""Operators on integers take the exact product of two scales for that of their bias."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx import TensorProto, helper
from onnx_hw import flow
from onnx_hw.ir.network import Network
from onnx_hw.ops.matmul import MatMul
from onnx_hw.ops.requantize import Requantize
from support.qdq_models import Sketch


def scale(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """All 24 bits of a float32 are in use, so that a product of two has 48."""
    return generator.uniform(0.001, 0.1, shape).astype(np.float32)


def requantizer(network: Network) -> tuple[Requantize, MatMul]:
    found = [node.operator for node in network.nodes if isinstance(node.operator, Requantize | MatMul)]
    (product, requantize) = found
    assert isinstance(requantize, Requantize) and isinstance(product, MatMul)
    return requantize, product


@pytest.mark.parametrize("operator", ["QLinearConv", "QGemm"])
@pytest.mark.parametrize("seed", range(3))
def test_a_bias_is_added_to_the_sums_as_an_integer(tmp_path: Path, operator: str, seed: int) -> None:
    """What a sum stands for is ``alpha · s_a · s_w`` times the sum, the zero point's share and the integer bias."""
    generator = np.random.default_rng(seed)
    sketch, channels = Sketch(), 3
    given, wanted = scale(generator), scale(generator, channels)
    out, zero = np.float32(1e6), np.int8(generator.integers(-9, 10))
    weights = generator.integers(-127, 128, (channels, 4), dtype=np.int8)
    bias = generator.integers(-(2**31), 2**31, channels, dtype=np.int32)
    alpha = Fraction(1)
    shaped, attributes = weights.reshape(channels, 4, 1, 1), {}
    data = [sketch.constant(np.array(v)) for v in (given, zero)]
    weight_grid = [sketch.constant(v) for v in (shaped, wanted, np.zeros(channels, dtype=np.int8))]
    of_result = [sketch.constant(np.array(v)) for v in (out, np.int8(3))]
    if operator == "QGemm":
        attributes = {"domain": "com.microsoft", "transB": 1, "alpha": 0.3}
        alpha = Fraction(float(np.float32(0.3)))
        weight_grid[0] = sketch.constant(weights)
        inputs = [*data, *weight_grid, sketch.constant(bias), *of_result]
    else:
        inputs = [*data, *weight_grid, *of_result, sketch.constant(bias)]
    y = sketch.node(operator, "x", *inputs, **attributes)
    shape = [1, 4] if operator == "QGemm" else [1, 4, 1, 1]
    made = sketch.model(shape, TensorProto.INT8, y, len(shape), TensorProto.INT8)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(made, tmp_path / "m.onnx")
    model = flow.read(tmp_path / "m.onnx")
    requantize, product = requantizer(flow.quantize(model))
    for channel in range(channels):
        slope = alpha * Fraction(float(given)) * Fraction(float(wanted[channel]))
        sums = int(product.weights[channel].astype(np.int64).sum())  # type: ignore[index]
        assert requantize.slope[channel] == slope
        assert requantize.offset[channel] == slope * (int(bias[channel]) - int(zero) * sums)
