"""Constants that are dequantized, computed with and quantized again, as onnxruntime's quantizer writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.onnx_oracle import assert_agrees, assert_circuit_agrees
from support.qdq_models import Sketch


@pytest.mark.parametrize("op_type", ["Identity", "Sub", "Abs"])
def test_a_constant_that_is_quantized_again(op_type: str, tmp_path: Path) -> None:
    random, s = np.random.default_rng(4), Sketch()
    weights = s.dequantized(random.integers(-127, 128, (4, 6), dtype=np.int8), 0.01)
    sums = s.through_integers(s.node("MatMul", s.through_integers("x", 0.02, 3), weights), 0.03, 0)
    term = s.dequantized(np.array([3, -50, 7, 100, 0, -128], dtype=np.int8), 0.005)
    others = [s.constant(np.float32(0.25))] if op_type == "Sub" else []
    term = s.through_integers(s.node(op_type, term, *others), 0.004, 5)
    output = s.through_integers(s.node("Add", sums, term), 0.035, -2)
    path = s.write(tmp_path / "model.onnx", (1, 4), output, 2)
    network = assert_agrees(path, 0.035, rarely=0.02)
    assert network.tail is None or all(node.op_type != "Add" for node in network.tail.graph.nodes)
    assert_circuit_agrees(network)
