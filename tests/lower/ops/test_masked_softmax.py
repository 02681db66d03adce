"""Softmax behind a constant mask, between two products: against onnxruntime, and in the circuit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from onnx_hw.ops.softmax import Softmax
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, random_frames, write
from support.qdq_models import Sketch

TOKENS = 5
STEP = 1 / 256


def between_products(shown: np.ndarray, scale: float, dtype: type[np.signedinteger] = np.int8) -> tuple[Sketch, str]:
    """x → integers → MatMul → integers → mask → Softmax → integers → MatMul with the identity."""
    s = Sketch(21)
    matrix = np.random.default_rng(3).integers(-127, 128, (TOKENS, TOKENS), dtype=np.int8)
    sums = s.node("MatMul", s.through_integers("x", 0.02, 3), s.dequantized(matrix, 0.002))
    scores = s.through_integers(sums, scale, 5, dtype)
    masked = s.node("Add", scores, s.constant(np.where(shown, 0, -np.inf).astype(np.float32)))
    weights = s.through_integers(s.node("Softmax", masked), STEP, -128)
    return s, s.node("MatMul", weights, s.dequantized(np.eye(TOKENS, dtype=np.int8), 1.0))


@pytest.mark.parametrize("scale", [0.01, 0.1])
@pytest.mark.parametrize("of_heads", [False, True])
def test_hidden_places_weigh_nothing(tmp_path: Path, scale: float, of_heads: bool) -> None:
    """Also where the scores differ by so little that the least integer of their type has a weight."""
    shape = (1, 2, TOKENS, TOKENS)
    shown = np.random.default_rng(1).random(shape if of_heads else shape[2:]) < 0.6
    shown[..., 2] = True
    s, y = between_products(shown, scale)
    path = write(s, tmp_path / "m.onnx", {"x": list(shape)}, y)
    network = assert_agrees(path, STEP, rarely=0.01)
    (weights,) = golden.run(network, random_frames(flow.read(path))).values()
    assert (weights[:, np.broadcast_to(~shown, shape)] == 0).all()
    assert (weights[:, np.broadcast_to(shown, shape)] != 0).mean() > 0.5
    assert sum(isinstance(node.operator, Softmax) for node in network.nodes) == 1
    if of_heads and scale == 0.01:
        assert_circuit_agrees(network)


def test_scores_of_too_many_integers_are_refused(tmp_path: Path) -> None:
    """A hidden place is one more range of integers away."""
    s, y = between_products(np.eye(TOKENS, dtype=bool), 0.001, np.int16)
    path = write(s, tmp_path / "m.onnx", {"x": [1, TOKENS, TOKENS]}, y)
    with pytest.raises(UserError, match="must be quantized to at most 11 bits"):
        flow.quantize(flow.read(path))
