"""Updates that ScatterND and ScatterElements add at constant indices, as networks on graphs sum up messages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import onnx_hw
from onnx_hw import flow
from support.onnx_oracle import assert_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

STEP = 2.0**-3
TARGETS = np.array([1, 0, 1, 3, 1, 0])


@pytest.mark.parametrize("op_type", ["ScatterND", "ScatterElements"])
@pytest.mark.parametrize("data", ["zeros", "constants", "an input"])
def test_added_updates(op_type: str, data: str, tmp_path: Path) -> None:
    """Steps are powers of two, so that onnxruntime's float32 is exact; one target has three updates, one has none."""
    sketch, shapes = Sketch(opset=18), {"x": (1, 6, 3)}
    x = sketch.node("Squeeze", sketch.through_integers("x", STEP, -3), sketch.constant(np.array([0])))
    rows = np.arange(12, dtype=np.float32).reshape(4, 3) * (data == "constants") * STEP
    onto = sketch.constant(rows)
    if data == "an input":
        shapes["d"] = (1, 4, 3)
        onto = sketch.node("Squeeze", sketch.through_integers("d", STEP, 4), sketch.constant(np.array([0])))
    if op_type == "ScatterND":
        sums = sketch.node(op_type, onto, sketch.constant(TARGETS[:, None]), x, reduction="add")
    else:
        indices = np.broadcast_to(TARGETS[:, None], (6, 3))
        sums = sketch.node(op_type, onto, sketch.constant(indices), x, axis=0, reduction="add")
    weights = sketch.dequantized(np.random.default_rng(0).integers(-9, 10, (3, 2)).astype(np.int8), np.float32(STEP))
    product = sketch.node("MatMul", sketch.through_integers(sums, STEP, 0), weights)
    y = sketch.through_integers(product, STEP, 5)
    assert_agrees(write(sketch, tmp_path / "m.onnx", shapes, y), STEP, rarely=0)


def test_messages_of_a_float_model(tmp_path: Path) -> None:
    sketch, draw = Sketch(opset=18), np.random.default_rng(0)
    weights = [sketch.constant(draw.normal(size=shape).astype(np.float32)) for shape in ((4, 5), (5, 3))]
    messages = sketch.node("Relu", sketch.node("MatMul", "x", weights[0]))
    zeros = sketch.constant(np.zeros((4, 5), dtype=np.float32))
    sums = sketch.node("ScatterND", zeros, sketch.constant(TARGETS[:, None]), messages, reduction="add")
    y = sketch.node("MatMul", sums, weights[1])
    path = write(sketch, tmp_path / "m.onnx", {"x": (6, 4)}, y)
    frames = random_frames(flow.read(path), 24)
    (wanted,), (given,) = by_onnxruntime(path, frames).values(), onnx_hw.quantize(path, frames)(frames).values()
    error = given.reshape(wanted.shape) - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 30
