"""A constant with more axes than its data, all of length 1: exporters write the bias of a recurrent cell like that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

STEP = 0.05
BIAS = np.random.default_rng(0).normal(0, 0.5, (1, 1, 6)).astype(np.float32)

FORMS: dict[str, Callable[[Sketch, str], str]] = {
    "Add": lambda s, x: s.node("Relu", s.node("Add", x, s.constant(BIAS))),
    "Mul": lambda s, x: s.node("Mul", s.node("Sigmoid", x), s.constant(BIAS)),
    "moved": lambda s, x: s.node("Transpose", s.node("Sub", s.constant(BIAS), x), perm=[2, 0, 1]),
}


@pytest.mark.parametrize("form", FORMS)
def test_between_quantizers(form: str, tmp_path: Path) -> None:
    s = Sketch(opset=17)
    y = s.through_integers(FORMS[form](s, s.through_integers("x", STEP, -3)), STEP, 2)
    network = assert_agrees(write(s, tmp_path / "m.onnx", {"x": [1, 6]}, y), STEP)
    if form == "moved":
        assert_circuit_agrees(network)


def test_of_a_float_model(tmp_path: Path) -> None:
    s, random = Sketch(opset=17), np.random.default_rng(1)
    weights = [s.constant(random.normal(0, 0.5, shape).astype(np.float32)) for shape in ((4, 6), (6, 3))]
    x = s.node("Tanh", s.node("Add", s.node("MatMul", "x", weights[0]), s.constant(BIAS)))
    y = s.node("MatMul", x, weights[1])
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 4]}, y))
    frames = random_frames(model, 32)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    error = golden.run(flow.quantize(model, frames), frames)[y] - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 28
