"""Models of a single operator, or of a few that multiply nothing, are built as a whole, in either form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from support.onnx_oracle import assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

SHAPE = [1, 4, 5, 6]
STEP = 0.05


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


MODELS: dict[str, Callable[[Sketch, str], str]] = {
    "MaxPool": lambda s, x: s.node("MaxPool", x, kernel_shape=[2, 2]),
    "Relu": lambda s, x: s.node("Relu", x),
    "Sigmoid": lambda s, x: s.node("Sigmoid", x),
    "Reshape": lambda s, x: s.node("Reshape", x, s.constant(ints(1, -1))),
    "Transpose": lambda s, x: s.node("Transpose", x, perm=[0, 2, 3, 1]),
    "Identity": lambda s, x: s.node("Identity", x),
    "Pad": lambda s, x: s.node("Pad", x, s.constant(ints(0, 0, 1, 1, 0, 0, 0, 0))),
    "Slice": lambda s, x: s.node("Slice", x, *(s.constant(ints(n)) for n in (1, 3, 1))),
    "Concat": lambda s, x: s.node("Concat", x, x, axis=1),
    "ReduceMax": lambda s, x: s.node("ReduceMax", x, axes=[2, 3]),
    "AveragePool": lambda s, x: s.node("AveragePool", x, kernel_shape=[2, 2]),
    "a few": lambda s, x: s.node(
        "Reshape", s.node("Elu", s.node("MaxPool", s.node("Add", x, s.constant(np.float32(1))), kernel_shape=[2, 2])),
        s.constant(ints(1, -1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_without_products(tmp_path: Path, name: str, quantized: bool) -> None:
    s = Sketch()
    x = s.through_integers("x", STEP, 3) if quantized else "x"
    y = MODELS[name](s, x)
    y = s.through_integers(y, STEP, 3) if quantized else y
    path = write(s, tmp_path / "m.onnx", {"x": SHAPE}, y)
    model = flow.read(path)
    frames = random_frames(model)
    network = flow.quantize(model, None if quantized else frames)
    (found,), (wanted,) = golden.run(network, frames).values(), by_onnxruntime(path, frames).values()
    assert found.shape == wanted.shape and network.nodes
    assert np.abs(found - wanted).max() < (STEP * 1.001 if quantized else STEP)
    if not quantized or name in ("Reshape", "Relu"):
        assert_circuit_agrees(network)


@pytest.mark.parametrize("behind", [0, 1])
def test_integers_that_come_back_as_they_went_are_no_circuit(tmp_path: Path, behind: int) -> None:
    """QuantizeLinear and DequantizeLinear alone, behind an operator of the host or not."""
    s = Sketch()
    x = s.node("Softmax", "x") if behind else "x"
    path = write(s, tmp_path / "m.onnx", {"x": SHAPE}, s.through_integers(x, STEP, 3))
    with pytest.raises(UserError, match="nothing-in-hardware"):
        flow.quantize(flow.read(path))
