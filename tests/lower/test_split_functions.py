"""Functions of accumulators that rise and fall, before a quantizer: a difference of two rising ones, exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw.exact.integers import Int
from onnx_hw.lower.values.function_table import _rising_parts
from onnx_hw.ops.tensor import Tensor
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, write
from support.qdq_models import Sketch


def model(s: Sketch, function: str) -> str:
    """Return a product, a function of its accumulators with a factor per channel, and another product."""
    random = np.random.default_rng(0)
    first, second = (s.dequantized(random.integers(-127, 128, n).astype(np.int8), 0.0077) for n in ((4, 3), (3, 2)))
    x = s.node("MatMul", s.through_integers("x", 0.03125, -5), first)
    y = s.node("Mul", s.node(function, x), s.constant(np.array([0.7, -1.1, 0.9], np.float32)))
    return s.through_integers(s.node("MatMul", s.through_integers(y, 0.0213, 3), second), 0.037, 1)


@pytest.mark.parametrize("function", ["HardSwish", "Sin"])
def test_golden_is_onnxruntime(function: str, tmp_path: Path) -> None:
    s = Sketch()
    network = assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 4]}, model(s, function)), 0.037, frames=50)
    assert any(node.name.endswith("/falling") for node in network.nodes)
    if function == "HardSwish":
        assert_circuit_agrees(network)


def test_the_difference_of_the_parts_is_the_function() -> None:
    operand = Tensor((1, 1, 2), Int(8))
    integers = np.random.default_rng(0).integers(-3, 3, (2, 256)).astype(np.int64)
    parts = _rising_parts(operand, integers)
    assert parts is not None
    arguments = np.arange(-128, 128).repeat(2).reshape(256, 1, 1, 2)
    rises, falls = (part.golden(arguments)[0].reshape(256, 2) for part in parts)
    assert np.array_equal((rises - falls).T, integers)
    assert _rising_parts(operand, integers * 100) is None
