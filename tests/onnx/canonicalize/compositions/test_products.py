"""Products with constants on the left, in stacks, or scaled: against onnxruntime, and the circuits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.messages.errors import UserError
from support.onnx_oracle import assert_agrees, assert_circuit_agrees, by_onnxruntime, random_frames, write
from support.qdq_models import Sketch

STEP = 0.037
"""Step of every result: sums of the steps below are no ties of it."""


def weights(s: Sketch, *shape: int, **how: object) -> str:
    integers = np.random.default_rng(len(s.constants)).integers(-127, 128, shape).astype(np.int8)
    return s.dequantized(integers, how.get("scale", np.float32(0.0077)), axis=int(str(how.get("axis", 0))))


def bias(s: Sketch, *shape: int) -> str:
    return s.constant(np.random.default_rng(9).normal(0, 0.3, shape).astype(np.float32))


FORMS: dict[str, tuple[dict[str, list[int]], Callable[[Sketch, str], str]]] = {
    "matrix": ({"x": [7, 5]}, lambda s, x: s.node("MatMul", weights(s, 4, 7), x)),
    "scale per row": (
        {"x": [1, 3, 4]},
        lambda s, x: s.node("MatMul", weights(s, 2, 3, scale=[0.01, 0.007]), x),
    ),
    "vector": ({"x": [6]}, lambda s, x: s.node("MatMul", weights(s, 4, 6), x)),
    "row": ({"x": [1, 6, 3]}, lambda s, x: s.node("MatMul", weights(s, 6), x)),
    "stack on the left": ({"x": [3, 4, 5]}, lambda s, x: s.node("MatMul", weights(s, 3, 2, 4), x)),
    "stack on the right": ({"x": [1, 2, 5, 4]}, lambda s, x: s.node("MatMul", x, weights(s, 2, 4, 3))),
    "one matrix of rank 3": ({"x": [1, 5, 4]}, lambda s, x: s.node("MatMul", x, weights(s, 1, 4, 3))),
    "Gemm, left": (
        {"x": [6, 5]},
        lambda s, x: s.node("Gemm", weights(s, 6, 4), x, bias(s, 5), transA=1, alpha=0.5, beta=2.0),
    ),
    "Gemm, transposed": (
        {"x": [6, 5]},
        lambda s, x: s.node("Gemm", x, weights(s, 3, 6), bias(s, 3), transA=1, transB=1),
    ),
    "Gemm, turned": ({"x": [1, 6]}, lambda s, x: s.node("Gemm", x, weights(s, 6, 4), bias(s, 4), alpha=-0.7)),
    "Gemm, two tensors": ({"x": [4, 5]}, lambda s, x: s.node("Gemm", x, x, bias(s, 4, 4), transB=1, alpha=0.3)),
}


@pytest.mark.parametrize("name", FORMS)
def test_golden_is_onnxruntime(name: str, tmp_path: Path) -> None:
    shapes, form = FORMS[name]
    s = Sketch()
    y = s.through_integers(form(s, s.through_integers("x", 0.03125, -5)), STEP, 3)
    network = assert_agrees(write(s, tmp_path / "m.onnx", shapes, y), STEP)
    if name == "stack on the right":
        assert_circuit_agrees(network)


def test_a_graph_convolution_of_floats(tmp_path: Path) -> None:
    """Both of its products have the adjacency matrix on the left."""
    rng, s = np.random.default_rng(0), Sketch()
    adjacency, *layers = (s.constant(rng.normal(0, 0.4, n).astype(np.float32)) for n in ((7, 7), (5, 6), (6, 3)))
    hidden = s.node("Relu", s.node("MatMul", adjacency, s.node("MatMul", "x", layers[0])))
    y = s.node("MatMul", adjacency, s.node("MatMul", hidden, layers[1]))
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [7, 5]}, y))
    frames = random_frames(model, 16)
    network = flow.quantize(model, frames)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    error = golden.run(network, frames)[y] - wanted
    assert 10 * np.log10((wanted**2).sum() / (error**2).sum()) > 30
    assert_circuit_agrees(network)


def test_a_bias_of_data_is_added(tmp_path: Path) -> None:
    """The distances of k-means, as scikit-learn's converter writes them; the host squares the input."""
    rng, s = np.random.default_rng(0), Sketch()
    centers = rng.normal(0, 1, (4, 6)).astype(np.float32)
    squares = s.node("ReduceSumSquare", "x", axes=[1], keepdims=1)
    product = s.node("Gemm", "x", s.constant(centers), squares, alpha=-2.0, transB=1)
    y = s.node("Add", product, s.constant((centers**2).sum(axis=1)))
    model = flow.read(write(s, tmp_path / "m.onnx", {"x": [1, 6]}, y))
    frames = random_frames(model, 16)
    wanted = by_onnxruntime(tmp_path / "m.onnx", frames)[y]
    assert np.allclose(golden.run(flow.quantize(model, frames), frames)[y], wanted, atol=0.02 * wanted.max())


def test_an_alpha_of_0_is_refused(tmp_path: Path) -> None:
    s = Sketch()
    y = s.node("Gemm", s.through_integers("x", 0.1, 0), weights(s, 3, 2), bias(s, 2), alpha=0.0)
    path = write(s, tmp_path / "m.onnx", {"x": [1, 3]}, s.through_integers(y, 0.1, 0))
    with pytest.raises(UserError, match="alpha of a Gemm must not be 0"):
        flow.quantize(flow.read(path))
