"""Constants with a scale per input of a product, such as the columns of an adjacency on the left of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.onnx.canonicalize.canonicalize import canonicalize
from onnx_hw.onnx.operators import facts_of
from onnx_hw.onnx.operators.facts import Effect
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, write
from support.qdq_models import Sketch

NODES, FEATURES = 6, 4


def product(path: Path, *, axis: int, left: bool = True, spread: float = 1.5) -> Path:
    """Write a product of quantized data and a constant with a scale for each index of an axis; then it is quantized."""
    sketch, generator = Sketch(), np.random.default_rng(0)
    shape = (NODES, NODES) if left else (FEATURES, 5)
    scales = 0.01 * np.exp(generator.uniform(-spread, spread, shape[axis]))
    integers = generator.integers(-127, 128, shape).astype(np.int8)
    constant = sketch.dequantized(integers, scales, np.zeros(shape[axis], np.int8), axis)
    data = sketch.through_integers("x", 0.02, 3)
    result = sketch.node("MatMul", *((constant, data) if left else (data, constant)))
    return write(sketch, path, {"x": [NODES if left else 1, FEATURES]}, sketch.through_integers(result, 0.1, -2))


@pytest.mark.parametrize(("left", "axis"), [(True, 1), (False, 0)])
def test_such_weights_get_integers_of_their_own(tmp_path: Path, left: bool, axis: int) -> None:
    path = product(tmp_path / "m.onnx", axis=axis, left=left)
    frames = {"x": np.random.default_rng(1).normal(0, 1, (8, NODES if left else 1, FEATURES)).astype(np.float32)}
    quantized = flow.quantized(flow.read(path), None)
    assert list(quantized.chosen.values()) == ["8 bits"]
    (found,), (wanted,) = golden.run(quantized.network, frames).values(), by_onnxruntime(path, frames).values()
    assert 10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum()) > 33
    assert_circuit_agrees(quantized.network, multipliers=4)


@pytest.mark.parametrize(("left", "axis", "spread"), [(True, 0, 1.5), (False, 1, 1.5), (True, 1, 0.0)])
def test_other_weights_keep_their_integers(tmp_path: Path, left: bool, axis: int, spread: float) -> None:
    """A scale per output, and scales that are all the same, are those of integers."""
    path = product(tmp_path / "m.onnx", axis=axis, left=left, spread=spread)
    nodes = canonicalize(flow.read(path).frame.model).graph.nodes
    assert sum(facts_of(node).effect is Effect.DEQUANTIZES for node in nodes) == 3
    assert_agrees(path, 0.1)
