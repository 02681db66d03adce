"""Gemm with a bias for every row of its data, or every element of the result: against exact rationals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lower.test_lowering_exactness import check
from onnx import TensorProto
from onnx_hw import flow
from quantization.test_float_models import Floats, quantized
from support.onnx_oracle import assert_circuit_agrees
from support.qdq_models import Sketch


@pytest.mark.parametrize("shape", [(3, 4), (3, 1), (1, 4), (4,), (1,), ()])
@pytest.mark.parametrize("stored", [True, False])
def test_any_bias(tmp_path: Path, shape: tuple[int, ...], stored: bool) -> None:
    generator = np.random.default_rng(len(shape) + stored)
    s = Sketch()
    x = s.node("DequantizeLinear", "x", s.constant(np.float32(0.05)), s.constant(np.int8(7)))
    scales = generator.uniform(0.001, 0.003, 4).astype(np.float32)
    weights = s.dequantized(generator.integers(-127, 128, (4, 5)).astype(np.int8), scales)
    if stored:
        bias = s.dequantized(generator.integers(-9999, 9999, shape).astype(np.int32), np.float32(0.0001))
    else:
        bias = s.constant(generator.normal(0, 1, shape).astype(np.float32))
    y = s.node("Relu", s.node("Gemm", x, weights, bias, transB=1, alpha=0.5, beta=2.0))
    y = s.node("QuantizeLinear", y, s.constant(np.float32(0.0217)), s.constant(np.int8(-100)))
    y = s.node("QuantizeLinear", *_next(s, y, generator), s.constant(np.int8(3)))
    model = s.model((3, 5), TensorProto.INT8, y, 2)
    check(tmp_path / "m.onnx", model, generator.integers(-128, 128, (4, 3, 5)).astype(np.int8))
    if shape in ((3, 4), (4,)):
        assert_circuit_agrees(flow.quantize(flow.read(tmp_path / "m.onnx")))


def _next(s: Sketch, y: str, generator: np.random.Generator) -> tuple[str, str]:
    """A product by rows behind it."""
    y = s.node("DequantizeLinear", y, s.constant(np.float32(0.0217)), s.constant(np.int8(-100)))
    weights = s.dequantized(generator.integers(-127, 128, (4, 2)).astype(np.int8), np.float32(0.004))
    return s.node("MatMul", y, weights), s.constant(np.float32(0.0417))


def test_a_float_model(tmp_path: Path) -> None:
    s = Floats()
    y = s.node("Relu", s.node("Gemm", "x", s.array(6, 5), s.array(3, 5)))
    quantized(s, tmp_path, s.node("Gemm", y, s.array(5, 4), s.array(3, 1)), x=[3, 6])
